package resources

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
)

var manyKeys = flag.Int("manykeys", 10_000, "keys of the store of many files, a file for each sixty at most")

// descriptorsIn counts the files below dir that this process has open.
func descriptorsIn(t *testing.T, dir string) int {
	const all = "/proc/self/fd"
	entries, err := os.ReadDir(all)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(all, e.Name())); err == nil && strings.HasPrefix(to, dir) {
			n++
		}
	}
	return n
}

// noMapFS refuses to map files, as a system does that has run out of mappings.
type noMapFS struct{ vfs.FS }

type noMapFile struct{ vfs.File }

func (f noMapFile) Map(int64) (vfs.Mapping, error) { return nil, errors.New("cannot allocate memory") }

func (n noMapFS) OpenDirs(names ...string) (vfs.Dirs, error) {
	held, err := n.FS.OpenDirs(names...)
	return noMapDirs{held}, err
}

type noMapDirs struct{ vfs.Dirs }

func (n noMapDirs) Open(name string) (vfs.File, error) {
	f, err := n.Dirs.Open(name)
	if err != nil {
		return nil, err
	}
	return noMapFile{f}, nil
}

// A store of thousands of files needs few descriptors: to read it at random and in
// order, to collect, compact and verify it, and to open it after a crash.
func TestOpenFilesAreBounded(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("descriptors are told by /proc")
	}
	for _, fs := range []vfs.FS{vfs.OS(), noMapFS{vfs.OS()}} {
		t.Run(fmt.Sprintf("%T", fs), func(t *testing.T) {
			t.Parallel()
			keys := *manyKeys
			if testing.Short() {
				keys = min(keys, 1500)
			}
			s := manyFiles{T: t, keys: keys, options: brock.Options{
				Dir: t.TempDir(), FS: fs, Durability: brock.Buffered,
				Tuning:      brock.Tuning{SegmentSize: 64 << 10, RunFileSize: 64 << 10, MemtableSize: 64 << 10, OpenFiles: 64},
				Maintenance: brock.Maintenance{IdleAfter: 50 * time.Millisecond},
			}}
			s.run()
		})
	}
}

// manyFiles is a store whose files are small. The value of each key holds the key
// and the round in which it was written.
type manyFiles struct {
	*testing.T
	options brock.Options
	keys    int
	db      *brock.DB
}

func (s *manyFiles) run() {
	stop, watched := make(chan struct{}), make(chan int)
	go func() {
		most := 0
		for {
			most = max(most, descriptorsIn(s.T, s.options.Dir))
			select {
			case <-stop:
				watched <- most
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	s.open()
	s.write(1, 1)
	files, _ := os.ReadDir(s.options.Dir)
	s.Logf("%d files", len(files))
	if len(files) < s.keys/200 {
		s.Errorf("%d files only", len(files))
	}
	var wg sync.WaitGroup
	wg.Go(func() { s.readRandomly() })
	wg.Go(func() { s.iterate() })
	wg.Go(func() { s.write(2, 2) })
	wg.Wait()
	s.verify()
	if _, err := s.db.Reclaim(context.Background()); err != nil {
		s.Error(err)
	}
	s.verify()
	s.readRandomly()
	if m := s.db.Metrics().Tree; m.OpenFiles > s.options.Tuning.OpenFiles || m.OpenFiles == 0 {
		s.Errorf("metrics tell of %d open files", m.OpenFiles)
	}
	if err := s.db.Close(); err != nil {
		s.Fatal(err)
	}
	s.open()
	s.iterate()
	s.readRandomly()
	if err := s.db.Close(); err != nil {
		s.Fatal(err)
	}
	close(stop)
	if most := <-watched; most > s.options.Tuning.OpenFiles {
		s.Errorf("%d descriptors were open, want %d at most", most, s.options.Tuning.OpenFiles)
	} else {
		s.Logf("%d descriptors at most", most)
	}
	if n := descriptorsIn(s.T, s.options.Dir); n != 0 {
		s.Errorf("%d descriptors are left after Close", n)
	}
}

func (s *manyFiles) open() {
	var err error
	begin := time.Now()
	if s.db, err = brock.Open(s.options); err != nil {
		s.Fatal(err)
	}
	m := s.db.Metrics().Tree
	s.Logf("opened %d segments and %d runs in %v, %d files are mapped", m.Segments, m.Runs, time.Since(begin), m.MappedFiles)
}

func manyKey(i int) []byte { return fmt.Appendf(nil, "key-%06d", i) }

// write sets every stride-th key.
func (s *manyFiles) write(round, stride int) {
	for at := 0; at < s.keys; {
		b := s.db.NewBatch()
		for n := 0; n < 20 && at < s.keys; n++ {
			value := make([]byte, 1000)
			binary.LittleEndian.PutUint64(value, uint64(at))
			value[8] = byte(round)
			if err := b.Set(manyKey(at), value); err != nil {
				s.Error(err)
			}
			at += stride
		}
		if _, err := b.Commit(context.Background(), 0); err != nil {
			s.Error(err)
			return
		}
	}
}

func (s *manyFiles) check(i int, v []byte, err error) {
	if err != nil || len(v) != 1000 || binary.LittleEndian.Uint64(v) != uint64(i) || v[8] != 1 && (v[8] != 2 || i%2 != 0) {
		s.Errorf("key %d: got %d bytes, %v", i, len(v), err)
	}
}

func (s *manyFiles) readRandomly() {
	var wg sync.WaitGroup
	for r := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(3, uint64(r)))
			for range s.keys / 8 {
				i := rng.IntN(s.keys)
				v, err := s.db.Get(manyKey(i))
				s.check(i, v, err)
			}
		})
	}
	wg.Wait()
}

func (s *manyFiles) iterate() {
	err := s.db.View(func(txn *brock.Txn) error {
		it := txn.NewIterator(brock.IteratorOptions{})
		n := 0
		for it.Rewind(); it.Valid(); it.Next() {
			v, err := it.Item().Value()
			s.check(n, v, err)
			n++
		}
		if n != s.keys {
			s.Errorf("iterated over %d keys, want %d", n, s.keys)
		}
		return it.Close()
	})
	if err != nil {
		s.Error(err)
	}
}

func (s *manyFiles) verify() {
	if err := s.db.Verify(context.Background(), func(c *brock.CorruptionError) { s.Error(c) }); err != nil {
		s.Error(err)
	}
}
