package device

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

func testFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, bytes.Repeat([]byte("x"), 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestLoop(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("direct reads are made on Linux")
	}
	procs := runtime.GOMAXPROCS(0)
	for _, depth := range []int{1, 4} {
		r, err := loop(testFile(t), depth, 20*time.Millisecond)
		if err != nil {
			t.Skip("the file system takes no direct reads: ", err)
		}
		if r.Reads == 0 || r.P50 == 0 || r.P99 < r.P50 {
			t.Errorf("depth %d: %+v", depth, r)
		}
	}
	if got := runtime.GOMAXPROCS(0); got != procs {
		t.Errorf("GOMAXPROCS is %d afterwards, was %d", got, procs)
	}
	if _, err := loop(filepath.Join(t.TempDir(), "none"), 1, time.Millisecond); err == nil {
		t.Error("no error without a file")
	}
}

func TestParse(t *testing.T) {
	got, err := parse([]byte(`{"jobs": [{"error": 0, "usr_cpu": 3, "sys_cpu": 17, "read": {"iops": 20000,
		"clat_ns": {"percentile": {"50.000000": 40000, "99.000000": 250000}}}}]}`))
	if want := (Rate{Reads: 20000, P50: 40, P99: 250, CPU: 10}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", "{}", `{"jobs": [{"error": 5}]}`} {
		if _, err := parse([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
