package open

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// Values that a transaction handed out stay readable after DB.Close, until the
// transaction ends.
func TestValuesOutliveClose(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"", t.TempDir()} {
		db := storetest.Open(t, brock.Options{Dir: dir, KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: 100}})
		big := strings.Repeat("big", 10_000)
		storetest.Set(t, db, "a=small", "b="+big)
		assert.OK(t, db.Flush(t.Context()))
		storetest.Set(t, db, "c=memory")
		for _, update := range []bool{false, true} {
			txn := db.NewTransaction(update)
			var values [][]byte
			for _, key := range []string{"a", "b", "c"} {
				it, err := txn.Get([]byte(key))
				assert.OK(t, err)
				values = append(values, assert.Must(it.Value()))
			}
			it := txn.NewIterator(brock.IteratorOptions{})
			it.Rewind()
			defer func() {
				assert.Equal(t, "values", fmt.Sprintf("%s %d %s", values[0], len(values[1]), values[2]), "small 30000 memory")
				assert.Equal(t, "big", string(values[1]), big)
				it.Next()
				assert.Error(t, "iterator", it.Err(), brock.ErrClosed)
				txn.Discard()
			}()
		}
		assert.OK(t, db.Close())
	}
}

// lockWatch tells of each lock that is given back, just after.
type lockWatch struct {
	vfs.FS
	unlocked func(held vfs.FS)
}

type watchedDirs struct {
	vfs.Dirs
	w *lockWatch
}

type watchedLock struct {
	io.Closer
	unlocked func()
}

func (w *lockWatch) OpenDirs(dirs ...string) (vfs.Dirs, error) {
	held, err := w.FS.OpenDirs(dirs...)
	return watchedDirs{held, w}, err
}

func (d watchedDirs) Lock(name string, shared bool) (io.Closer, error) {
	lock, err := d.Dirs.Lock(name, shared)
	if err != nil {
		return nil, err
	}
	return watchedLock{lock, func() { d.w.unlocked(d.Dirs) }}, nil
}

func (l watchedLock) Close() error {
	defer l.unlocked()
	return l.Closer.Close()
}

// From the moment at which another process may open the store, nothing of this one reaches its
// files, though a Backup or RotateKey may be on its way out.
func TestNothingReachesFilesOnceTheLockIsGivenBack(t *testing.T) {
	t.Parallel()
	storetest.OnEach(t, func(t *testing.T, p storetest.Place) {
		unlocked := 0
		w := &lockWatch{FS: p.FS, unlocked: func(held vfs.FS) {
			unlocked++
			if _, err := held.List(p.Join("store")); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("a directory is listed: %v", err)
			}
			if _, err := held.Create(p.Join("store/stray")); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("a file is made: %v", err)
			}
		}}
		db := storetest.Open(t, brock.Options{Dir: p.Join("store"), ValueDir: p.Join("values"), FS: w})
		storetest.Set(t, db, "a", "1")
		assert.OK(t, db.Close())
		assert.Equal(t, "locks given back", unlocked, 2)
	})
}
