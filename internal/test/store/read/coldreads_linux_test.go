package read

import (
	"context"
	"encoding/binary"
	"fmt"
	"golang.org/x/sys/unix"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/process"
)

// memoryGroup makes a control group of processes that may take this much memory, the page
// cache included, and returns its directory, and false where it can't.
func memoryGroup(name string, limit int) (string, bool) {
	for _, in := range [][2]string{{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"}} {
		dir := filepath.Join(in[0], name)
		if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
			continue
		}
		if f, err := os.OpenFile(filepath.Join(dir, in[1]), os.O_WRONLY, 0); err == nil {
			_, err = f.WriteString(strconv.Itoa(limit))
			if f.Close() == nil && err == nil {
				return dir, true
			}
		}
		_ = os.Remove(dir)
	}
	return "", false
}

// Gets from a store four times as large as memory seldom fault, and read little more than
// the pages that their values lie on.
func TestColdGetsDontFault(t *testing.T) {
	process.RequireMappings(t)
	if testing.Short() {
		t.Skip("writes 256 MB")
	}
	const values, size, limit = 240_000, 1000, 64 << 20
	group, ok := memoryGroup("brock-cold-gets", limit)
	if !ok {
		t.Skip("no control group of memory can be made here")
	}
	if !process.RunInChild(t) {
		_ = os.Remove(group) // its process has ended
		return
	}
	o := brock.DefaultOptions(t.TempDir())
	o.Durability = brock.Buffered
	db, err := brock.Open(o)
	assert.OK(t, err)
	key := func(i uint64) []byte {
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, i*0x9e3779b97f4a7c15), i)
	}
	w := db.NewWriter(context.Background())
	for i := range uint64(values) {
		assert.OK(t, w.Set(key(i), make([]byte, size)))
	}
	assert.OK(t, w.Close())
	assert.OK(t, db.Compact(context.Background()))
	assert.OK(t, db.Close())
	dropFiles(t, o.Dir)
	assert.OK(t, os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0))

	db, err = brock.Open(o)
	assert.OK(t, err)
	defer db.Close()
	const readers = 16
	gets := func(each int) {
		var wg sync.WaitGroup
		for r := range uint64(readers) {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(r, uint64(each)))
				for range each {
					if v, err := db.Get(key(rng.Uint64N(values))); err != nil || len(v) != size {
						t.Errorf("%d bytes, %v", len(v), err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	gets(3000) // until memory is full
	var before, after unix.Rusage
	assert.OK(t, unix.Getrusage(unix.RUSAGE_SELF, &before))
	blocks := readBlocks(t)
	const each = 3000
	gets(each)
	assert.OK(t, unix.Getrusage(unix.RUSAGE_SELF, &after))
	n := float64(readers * each)
	faults, bytes := float64(after.Majflt-before.Majflt)/n, float64(readBlocks(t)-blocks)/n
	t.Logf("%.4f major faults and %.0f bytes a get", faults, bytes)
	if faults > 0.05 {
		t.Errorf("%.3f major faults a get, want 0.01", faults)
	}
	if bytes > 3*4096 {
		t.Errorf("%.0f bytes read a get, want 5000", bytes)
	}
}

// dropFiles has the files of a directory leave memory.
func dropFiles(t *testing.T, dir string) {
	files, err := os.ReadDir(dir)
	assert.OK(t, err)
	for _, e := range files {
		f, err := os.Open(filepath.Join(dir, e.Name()))
		assert.OK(t, err)
		assert.OK(t, unix.Fsync(int(f.Fd())))
		assert.OK(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
		assert.OK(t, f.Close())
	}
}

// readBlocks is how many bytes this process had read from disks.
func readBlocks(t *testing.T) (n int64) {
	b, err := os.ReadFile("/proc/self/io")
	assert.OK(t, err)
	var rchar, wchar, syscr, syscw int64
	_, err = fmt.Sscanf(string(b), "rchar: %d\nwchar: %d\nsyscr: %d\nsyscw: %d\nread_bytes: %d", &rchar, &wchar, &syscr, &syscw, &n)
	assert.OK(t, err)
	return n
}
