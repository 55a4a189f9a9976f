package follow

import (
	"fmt"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestFollowerMeetsAFork: a copy of the store that has gone on by itself takes the place of the one
// that is followed. Whatever it has done, Refresh returns ErrForeign, and what was shown stays.
func TestFollowerMeetsAFork(t *testing.T) {
	t.Parallel()
	for _, keyed := range []bool{false, true} {
		for _, copied := range []string{"while it was open", "after it was closed"} {
			for work, do := range map[string]func(db *brock.DB) error{
				"sets":    func(*brock.DB) error { return nil },
				"flushes": func(db *brock.DB) error { return db.Flush(t.Context()) },
				"keyspaces": func(db *brock.DB) error {
					_, err := db.Keyspace("other")
					return err
				},
				"another manifest": func(db *brock.DB) error {
					if err := db.Flush(t.Context()); err != nil || !keyed {
						return err
					}
					return db.RotateKey(t.Context(), brock.RotateOptions{})
				},
			} {
				t.Run(fmt.Sprintf("%s, copied %s, encrypted %v", work, copied, keyed), func(t *testing.T) {
					t.Parallel()
					mem := vfs.NewMem()
					o := storetest.KeyedOptions(mem, storetest.Dir)
					o.Maintenance.IdleAfter = time.Hour
					if !keyed {
						o.Keys = nil
					}
					db := assert.Must(brock.Open(o))
					assert.OK(t, db.Set([]byte("common"), []byte("1")))
					if copied != "while it was open" {
						assert.OK(t, db.Close())
					}
					other := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
					if copied != "while it was open" {
						db = assert.Must(brock.Open(o))
					}
					for n := range 3 {
						assert.OK(t, db.Set(fmt.Appendf(nil, "mine%d", n), []byte("acknowledged")))
					}
					followed := o
					followed.Mode = brock.Follow
					follower := assert.Must(brock.Open(followed))
					defer follower.Close()
					assert.OK(t, db.Close())

					o.FS = other
					db = assert.Must(brock.Open(o))
					for n := range 10 {
						assert.OK(t, db.Set(fmt.Appendf(nil, "other%d", n), []byte("of another past")))
					}
					assert.OK(t, do(db))
					assert.OK(t, db.Close())
					takeOver(t, mem, other)

					_, err := follower.Refresh(t.Context())
					assert.Error(t, "Refresh", err, brock.ErrForeign)
					assert.Equal(t, "what was shown", string(assert.Must(follower.Get([]byte("mine2")))), "acknowledged")
					_, err = follower.Get([]byte("other2"))
					assert.Error(t, "what the copy has", err, brock.ErrKeyNotFound)
				})
			}
		}
	}
}

// TestFollowerMeetsALongFork: as above, but nothing of what the follower knows is left to compare
// with: the copy has rewritten all files, and gone on through several manifests. Its first session
// has found the journal without the commits that were shown.
func TestFollowerMeetsALongFork(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	o := storetest.KeyedOptions(mem, storetest.Dir)
	o.Maintenance.IdleAfter = time.Hour
	db := assert.Must(brock.Open(o))
	assert.OK(t, db.Set([]byte("common"), []byte("1")))
	other := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	assert.OK(t, db.Flush(t.Context()))
	assert.OK(t, db.Set([]byte("mine"), []byte("acknowledged")))
	followed := o
	followed.Mode = brock.Follow
	follower := assert.Must(brock.Open(followed))
	defer follower.Close()
	assert.OK(t, db.Close())

	o.FS = other
	for range 3 {
		db = assert.Must(brock.Open(o))
		for range 3 { // takes numbers of files
			assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: true}))
		}
		for range 10 { // frames of more numbers than were shown
			assert.OK(t, db.Set([]byte("other"), []byte("of another past")))
		}
		assert.OK(t, db.Flush(t.Context()))
		assert.OK(t, db.Close())
	}
	takeOver(t, mem, other)
	_, err := follower.Refresh(t.Context())
	assert.Error(t, "Refresh", err, brock.ErrForeign)
	assert.Equal(t, "what was shown", string(assert.Must(follower.Get([]byte("mine")))), "acknowledged")
}

// takeOver makes the files of the store in mem those of the store in other.
func takeOver(t *testing.T, mem, other *vfs.Mem) {
	t.Helper()
	for _, name := range assert.Must(mem.List(storetest.Dir)) {
		if name != "LOCK" {
			assert.OK(t, mem.Remove(storetest.Dir+"/"+name))
		}
	}
	for _, name := range assert.Must(other.List(storetest.Dir)) {
		if name == "LOCK" {
			continue
		}
		from := assert.Must(other.Open(storetest.Dir + "/" + name))
		p := make([]byte, assert.Must(from.Size()))
		if len(p) > 0 {
			assert.Must(from.ReadAt(p, 0))
		}
		assert.OK(t, from.Close())
		to := assert.Must(mem.Create(storetest.Dir + "/" + name))
		assert.Must(to.WriteAt(p, 0))
		assert.OK(t, to.Close())
	}
}
