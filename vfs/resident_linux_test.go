//go:build amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64 || s390x

package vfs

import (
	"bytes"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestResidentPagesOfAFileJustWritten(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	f, err := OS().Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(make([]byte, 5*4096), 0); err != nil {
		t.Fatal(err)
	}
	m, err := f.Map(8 * 4096)
	if err != nil {
		t.Skip("no mapping here:", err)
	}
	defer m.Close()
	r, ok := m.(Resident)
	if !ok {
		t.Skip("no word of resident pages here")
	}
	pages := []byte{0, 0, 0, 0, 9, 9, 9}
	if err := r.Resident(4096, pages); err != nil {
		t.Fatal(err)
	}
	for i, p := range pages {
		if want := byte(0); i < 4 {
			want = 1
			if p&1 != want {
				t.Errorf("page %d was just written and is not in memory", i+1)
			}
		} else if p&1 != want {
			t.Errorf("page %d lies beyond the file and is in memory", i+1)
		}
	}
	if r.Resident(4096, make([]byte, 8)) == nil || r.Resident(1, pages) == nil {
		t.Error("a range outside of the mapping, or off its pages, is accepted")
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if r.Resident(0, pages) == nil {
		t.Error("a closed mapping tells of its pages")
	}
}

// TestResidentOfManyPages asks about many pages at once, and about each: whichever of them are in
// memory, and also when the file is closed, the answers are the same.
func TestResidentOfManyPages(t *testing.T) {
	const n = 3 * manyPages
	f, err := OS().Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(make([]byte, n*residentPage), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil { // what is not written can't be dropped
		t.Fatal(err)
	}
	m, err := f.Map(n * residentPage)
	if err != nil {
		t.Skip("no mapping here:", err)
	}
	defer m.Close()
	fd := int(f.(osFile).Fd())
	seen := map[byte]bool{}
	for _, c := range []struct{ from, to, read int }{{}, {0, n, 0}, {0, n, 1}, {n / 2, n, 0}, {0, n / 2, 0}} {
		if _, err := f.ReadAt(make([]byte, n*residentPage), 0); err != nil {
			t.Fatal(err)
		}
		if c.to > 0 {
			if err := unix.Fadvise(fd, int64(c.from)*residentPage, int64(c.to-c.from)*residentPage, unix.FADV_DONTNEED); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := f.ReadAt(make([]byte, c.read), int64(n/2)*residentPage); err != nil {
			t.Fatal(err)
		}
		want := make([]byte, n)
		for i := range want {
			if err := m.(Resident).Resident(int64(i)*residentPage, want[i:i+1]); err != nil {
				t.Fatal(err)
			}
			seen[want[i]&1] = true
		}
		got := bytes.Repeat([]byte{9}, n)
		if err := m.(Resident).Resident(0, got); err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if (got[i]^want[i])&1 != 0 {
				t.Errorf("dropped %d to %d, read %d: page %d: %d at once, %d by itself", c.from, c.to, c.read, i, got[i], want[i])
			}
		}
	}
	if len(seen) != 2 {
		t.Log("the file system keeps everything in memory, or nothing")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := m.(Resident).Resident(0, make([]byte, n)); err != nil {
		t.Errorf("of a closed file: %v", err)
	}
}
