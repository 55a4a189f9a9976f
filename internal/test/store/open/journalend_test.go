package open

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
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
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
					return brock.Open(brock.Options{Dir: storetest.Dir, FS: m, Keys: keys, Tuning: brock.Tuning{SegmentSize: 64 << 10}, Maintenance: brock.Maintenance{IdleAfter: time.Hour}})
				}
				db := assert.Must(open(mine))
				storetest.Set(t, db, "common=1")
				if closed {
					assert.OK(t, db.Close())
				}
				mine = mine.CrashClone(vfs.CrashOptions{Mode: vfs.All})
				copied := mine.CrashClone(vfs.CrashOptions{Mode: vfs.All})
				_ = db.Close()

				// Segments are kept as they are made: flushes remove them.
				kept := map[string][]byte{}
				keep := func() {
					for _, name := range assert.Must(copied.List(storetest.Dir)) {
						if !strings.HasSuffix(name, ".log") {
							continue
						}
						data, err := readName(copied, name)
						if errors.Is(err, fs.ErrNotExist) { // a flush was faster
							continue
						}
						assert.OK(t, err)
						kept[name] = data
					}
				}
				db = assert.Must(open(copied))
				assert.OK(t, db.Set([]byte("theirs"), make([]byte, 50_000)))
				keep()
				assert.OK(t, db.UpdateContext(t.Context(), brock.TxnOptions{MaxMemory: 1}, func(txn *brock.Txn) error {
					return txn.Set([]byte("large"), []byte("in no journal"))
				}))
				storetest.Set(t, db, "behind=it")
				keep()
				assert.OK(t, db.Close())

				for _, name := range assert.Must(mine.List(storetest.Dir)) {
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
	f, err := m.Open(filepath.Join(storetest.Dir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, assert.Must(f.Size()))
	_, err = f.ReadAt(data, 0)
	return data, err
}

// write makes a file of the store.
func write(t *testing.T, m *vfs.Mem, name string, data []byte) {
	t.Helper()
	f := assert.Must(m.Create(filepath.Join(storetest.Dir, name)))
	assert.Must(f.WriteAt(data, 0))
	assert.OK(t, f.Close())
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
			db := storetest.Open(t, o)
			storetest.Set(t, db, "a=1")
			assert.OK(t, db.Close())
			if killed {
				db = storetest.Open(t, o)
				assert.Must(db.Keyspace("made since"))
				o.Dir = t.TempDir()
				assert.OK(t, os.CopyFS(o.Dir, os.DirFS(store)))
				assert.OK(t, db.Close())
			}
			logs := assert.Must(filepath.Glob(filepath.Join(o.Dir, "*.log")))
			if len(logs) != 1 {
				t.Fatalf("%v", logs)
			}
			if err := os.Truncate(logs[0], 4<<30); err != nil {
				t.Skip("the file system has no sparse files:", err)
			}
			o.FS, o.Mode = countingFS{vfs.OS(), new(atomic.Int64)}, mode
			db = assert.Must(brock.Open(o))
			if n := o.FS.(countingFS).bytes.Load(); n == 0 || n > 4<<20 {
				t.Errorf("killed %v, mode %v: %d bytes were read", killed, mode, n)
			}
			if v, err := db.Get([]byte("a")); string(v) != "1" || err != nil {
				t.Errorf("killed %v, mode %v: %q, %v", killed, mode, v, err)
			}
			assert.OK(t, db.Close())
		}
	}
}

// A store was killed, and a session has read its journal to the end and recorded that. From then on
// the last commit is missed if it gets damaged, though nothing was committed after it.
func TestLastCommitBeforeASessionIsMissed(t *testing.T) {
	mem := vfs.NewMem()
	o := brock.Options{Dir: storetest.Dir, FS: mem, Maintenance: brock.Maintenance{IdleAfter: time.Hour}}
	db := assert.Must(brock.Open(o))
	storetest.Set(t, db, "a=1")
	storetest.Set(t, db, "b=2")
	o.FS = mem.CrashClone(vfs.CrashOptions{Mode: vfs.Lost})
	assert.OK(t, db.Close())

	db = assert.Must(brock.Open(o))
	assert.Must(db.Keyspace("made since"))
	mem = o.FS.(*vfs.Mem).CrashClone(vfs.CrashOptions{Mode: vfs.Lost})
	assert.OK(t, db.Close())

	for _, name := range assert.Must(mem.List(storetest.Dir)) {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		data := assert.Must(readName(mem, name))
		data[bytes.LastIndexByte(data, '2')] ^= 1
		assert.OK(t, mem.Remove(filepath.Join(storetest.Dir, name)))
		write(t, mem, name, data)
	}
	o.FS = mem
	db, err := brock.Open(o)
	if !errors.Is(err, brock.ErrCorrupt) {
		t.Errorf("opened without the last commit: %v", err)
		assert.OK(t, db.Close())
	}
}
