package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
)

// A copy of a store goes on, and its journal segments are put beside those of the store. If the
// store was closed, its journal ends where its manifest says. If it was killed, segments may
// follow; but not across a large transaction of which only the copy's manifest tells.
func TestSegmentsOfACopyThatWentOn(t *testing.T) {
	for _, keys := range []brock.KeyProvider{nil, brock.StaticKey(bytes.Repeat([]byte{7}, 32))} {
		for _, closed := range []bool{false, true} {
			t.Run(fmt.Sprintf("encrypted %v, closed %v", keys != nil, closed), func(t *testing.T) {
				mine := vfs.NewMem()
				open := func(m *vfs.Mem) (*brock.DB, error) {
					return brock.Open(brock.Options{Dir: dir, FS: m, Keys: keys, Tuning: brock.Tuning{SegmentSize: 64 << 10}, Maintenance: brock.Maintenance{IdleAfter: time.Hour}})
				}
				db := must2(open(mine))
				set(t, db, "common=1")
				if closed {
					must(t, db.Close())
				}
				mine = mine.CrashClone(vfs.CrashOptions{Mode: vfs.All})
				copied := mine.CrashClone(vfs.CrashOptions{Mode: vfs.All})
				_ = db.Close()

				// Segments are kept as they are made: flushes remove them.
				kept := map[string][]byte{}
				keep := func() {
					for _, name := range must2(copied.List(dir)) {
						if !strings.HasSuffix(name, ".log") {
							continue
						}
						data, err := readName(copied, name)
						if errors.Is(err, fs.ErrNotExist) { // a flush was faster
							continue
						}
						must(t, err)
						kept[name] = data
					}
				}
				db = must2(open(copied))
				must(t, db.Set([]byte("theirs"), make([]byte, 50_000)))
				keep()
				must(t, db.UpdateContext(t.Context(), brock.TxnOptions{MaxMemory: 1}, func(txn *brock.Txn) error {
					return txn.Set([]byte("large"), []byte("in no journal"))
				}))
				set(t, db, "behind=it")
				keep()
				must(t, db.Close())

				for _, name := range must2(mine.List(dir)) {
					delete(kept, name)
				}
				if len(kept) < 2 {
					t.Fatalf("%d segments to add", len(kept))
				}
				for name, data := range kept {
					write(t, mine, name, data)
				}
				if db, err := open(mine); !errors.Is(err, brock.ErrCorrupt) {
					t.Errorf("opened: %v", err)
					_ = db.Close()
				}
			})
		}
	}
}

// readName returns the content of a file of the store.
func readName(m *vfs.Mem, name string) ([]byte, error) {
	f, err := m.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, must2(f.Size()))
	_, err = f.ReadAt(data, 0)
	return data, err
}

// write makes a file of the store.
func write(t *testing.T, m *vfs.Mem, name string, data []byte) {
	t.Helper()
	f := must2(m.Create(filepath.Join(dir, name)))
	must2(f.WriteAt(data, 0))
	must(t, f.Close())
}

// countingFS counts the bytes that are read by calls.
type countingFS struct {
	vfs.FS
	bytes *atomic.Int64
}

// countingDirs are directories of a countingFS that are held open.
type countingDirs struct {
	countingFS
	io.Closer
}

type countingFile struct {
	vfs.File
	bytes *atomic.Int64
}

func (f countingFS) OpenDirs(names ...string) (vfs.Dirs, error) {
	held, err := f.FS.OpenDirs(names...)
	return countingDirs{countingFS{held, f.bytes}, held}, err
}

func (f countingFS) Open(name string) (vfs.File, error) {
	file, err := f.FS.Open(name)
	return countingFile{file, f.bytes}, err
}

func (f countingFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.bytes.Add(int64(n))
	return n, err
}

// The journal file of a store that was closed is lengthened by 4 GiB of zeros. Open reads no more
// of it than before; nor if a session has changed the store meanwhile, and was killed.
func TestLengthenedJournalOfAClosedStore(t *testing.T) {
	for _, killed := range []bool{false, true} {
		for _, mode := range []brock.OpenMode{brock.ReadOnly, brock.Follow, brock.ReadWrite} {
			store := t.TempDir()
			o := brock.Options{Dir: store, Maintenance: brock.Maintenance{IdleAfter: time.Hour}}
			db := openTest(t, o)
			set(t, db, "a=1")
			must(t, db.Close())
			if killed {
				db = openTest(t, o)
				must2(db.Keyspace("made since"))
				o.Dir = t.TempDir()
				must(t, os.CopyFS(o.Dir, os.DirFS(store)))
				must(t, db.Close())
			}
			logs := must2(filepath.Glob(filepath.Join(o.Dir, "*.log")))
			if len(logs) != 1 {
				t.Fatalf("%v", logs)
			}
			if err := os.Truncate(logs[0], 4<<30); err != nil {
				t.Skip("the file system has no sparse files:", err)
			}
			o.FS, o.Mode = countingFS{vfs.OS(), new(atomic.Int64)}, mode
			db = must2(brock.Open(o))
			if n := o.FS.(countingFS).bytes.Load(); n == 0 || n > 4<<20 {
				t.Errorf("killed %v, mode %v: %d bytes were read", killed, mode, n)
			}
			if v, err := db.Get([]byte("a")); string(v) != "1" || err != nil {
				t.Errorf("killed %v, mode %v: %q, %v", killed, mode, v, err)
			}
			must(t, db.Close())
		}
	}
}

// A store was killed, and a session has read its journal to the end and recorded that. From then on
// the last commit is missed if it gets damaged, though nothing was committed after it.
func TestLastCommitBeforeASessionIsMissed(t *testing.T) {
	mem := vfs.NewMem()
	o := brock.Options{Dir: dir, FS: mem, Maintenance: brock.Maintenance{IdleAfter: time.Hour}}
	db := must2(brock.Open(o))
	set(t, db, "a=1")
	set(t, db, "b=2")
	o.FS = mem.CrashClone(vfs.CrashOptions{Mode: vfs.Lost})
	must(t, db.Close())

	db = must2(brock.Open(o))
	must2(db.Keyspace("made since"))
	mem = o.FS.(*vfs.Mem).CrashClone(vfs.CrashOptions{Mode: vfs.Lost})
	must(t, db.Close())

	for _, name := range must2(mem.List(dir)) {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		data := must2(readName(mem, name))
		data[bytes.LastIndexByte(data, '2')] ^= 1
		must(t, mem.Remove(filepath.Join(dir, name)))
		write(t, mem, name, data)
	}
	o.FS = mem
	db, err := brock.Open(o)
	if !errors.Is(err, brock.ErrCorrupt) {
		t.Errorf("opened without the last commit: %v", err)
		must(t, db.Close())
	}
}
