package segment

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/vfs"
)

// counted counts the files that are open, and syncs nothing.
type counted struct {
	vfs.FS
	open, most, opened atomic.Int64
}

type countedFile struct {
	vfs.File
	fs *counted
}

func (c *counted) count(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	c.opened.Add(1)
	for n := c.open.Add(1); ; {
		if most := c.most.Load(); n <= most || c.most.CompareAndSwap(most, n) {
			return &countedFile{f, c}, nil
		}
	}
}

func (c *counted) Open(name string) (vfs.File, error)   { return c.count(c.FS.Open(name)) }
func (c *counted) Create(name string) (vfs.File, error) { return c.count(c.FS.Create(name)) }
func (c *counted) SyncDir(string) error                 { return nil }
func (f *countedFile) Sync() error                      { return nil }

func (f *countedFile) Close() error {
	f.fs.open.Add(-1)
	return f.File.Close()
}

// All values of thousands of segments are read in random order by many at once,
// mapped or not, with a hundred descriptors.
func TestThousandsOfSegments(t *testing.T) { forms(t, testThousandsOfSegments) }

func testThousandsOfSegments(t *testing.T, testConfig func(testing.TB) Config) {
	segments, limit, readers := 4096, 100, 16 // a terabyte in segments of the usual size
	if testing.Short() {
		segments = 1024
	}
	fs := &counted{FS: vfs.OS()}
	c := testConfig(t)
	c.FS, c.Files = fs, pageio.NewFiles(fs, limit)
	lengths := []int{600, 5000}
	handles, written := make([][]entry.Handle, segments), make([]Stats, segments)
	for s := range segments {
		w := must(NewValueWriter(c, entry.FileNum(s+1)))(t)
		for i, n := range lengths {
			h := must(w.Add(&entry.Entry{Key: key(s), Value: value(s+i, n), Version: entry.Version(i + 1), Kind: entry.Set}))(t)
			handles[s] = append(handles[s], h)
		}
		written[s] = must(w.Finish())(t)
	}
	for _, noMap := range []bool{false, true} {
		fs.opened.Store(0)
		open := make([]*Reader, segments)
		for s := range open {
			open[s] = must(Open(c, filename.Value, entry.FileNum(s+1), OpenOptions{End: written[s].Size, KeyID: written[s].KeyID, NoMap: noMap}))(t)
		}
		var wg sync.WaitGroup
		for r := range readers {
			wg.Go(func() {
				for _, s := range rand.New(rand.NewPCG(7, uint64(r))).Perm(segments) {
					for i, n := range lengths {
						got, err := plain(open[s].Stored(handles[s][i], key(s), entry.Version(i+1)))
						if err != nil || !bytes.Equal(got, value(s+i, n)) {
							t.Errorf("segment %d, value %d: %d bytes, %v", s, i, len(got), err)
							return
						}
					}
				}
			})
		}
		wg.Wait()
		if most := fs.most.Load(); most > int64(limit) {
			t.Errorf("%d files were open, want %d at most", most, limit)
		}
		t.Logf("mapped %v: %d files, opened %d times", !noMap, segments, fs.opened.Load())
		for _, r := range open {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
		if n := fs.open.Load(); n != 0 {
			t.Errorf("%d files are open after all were closed", n)
		}
	}
}

// Work that makes many segments keeps their writers, so that it can abort; these
// keep no buffers.
func TestFinishedWritersAreSmall(t *testing.T) { forms(t, testFinishedWritersAreSmall) }

func testFinishedWritersAreSmall(t *testing.T, testConfig func(testing.TB) Config) {
	c := testConfig(t)
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	var finished []*ValueWriter
	for s := range 50 {
		w := must(NewValueWriter(c, entry.FileNum(s+1)))(t)
		must(w.Add(&entry.Entry{Key: key(s), Value: value(s, 200<<10), Version: 1, Kind: entry.Set}))(t)
		must(w.Finish())(t)
		finished = append(finished, w)
	}
	if grown := heap() - before; grown > 1<<20 {
		t.Errorf("%d writers keep %d bytes", len(finished), grown)
	}
	for _, w := range finished {
		if err := w.Abort(); err != nil {
			t.Error(err)
		}
	}
}
