package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
)

// TestFollowerMeetsAFork: a copy of the store that has gone on by itself takes the place of the one
// that is followed. Whatever it has done, Refresh returns ErrForeign, and what was shown stays.
func TestFollowerMeetsAFork(t *testing.T) {
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
					mem := vfs.NewMem()
					o := keyedOptions(mem, dir)
					o.Maintenance.IdleAfter = time.Hour
					if !keyed {
						o.Keys = nil
					}
					db := must2(brock.Open(o))
					must(t, db.Set(b("common"), b("1")))
					if copied != "while it was open" {
						must(t, db.Close())
					}
					other := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
					if copied != "while it was open" {
						db = must2(brock.Open(o))
					}
					for n := range 3 {
						must(t, db.Set(fmt.Appendf(nil, "mine%d", n), b("acknowledged")))
					}
					followed := o
					followed.Mode = brock.Follow
					follower := must2(brock.Open(followed))
					defer follower.Close()
					must(t, db.Close())

					o.FS = other
					db = must2(brock.Open(o))
					for n := range 10 {
						must(t, db.Set(fmt.Appendf(nil, "other%d", n), b("of another past")))
					}
					must(t, do(db))
					must(t, db.Close())
					takeOver(t, mem, other)

					_, err := follower.Refresh(t.Context())
					wantErr(t, "Refresh", err, brock.ErrForeign)
					wantEqual(t, "what was shown", string(must2(follower.Get(b("mine2")))), "acknowledged")
					_, err = follower.Get(b("other2"))
					wantErr(t, "what the copy has", err, brock.ErrKeyNotFound)
				})
			}
		}
	}
}

// TestFollowerMeetsALongFork: as above, but nothing of what the follower knows is left to compare
// with: the copy has rewritten all files, and gone on through several manifests. Its first session
// has found the journal without the commits that were shown.
func TestFollowerMeetsALongFork(t *testing.T) {
	mem := vfs.NewMem()
	o := keyedOptions(mem, dir)
	o.Maintenance.IdleAfter = time.Hour
	db := must2(brock.Open(o))
	must(t, db.Set(b("common"), b("1")))
	other := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	must(t, db.Flush(t.Context()))
	must(t, db.Set(b("mine"), b("acknowledged")))
	followed := o
	followed.Mode = brock.Follow
	follower := must2(brock.Open(followed))
	defer follower.Close()
	must(t, db.Close())

	o.FS = other
	for range 3 {
		db = must2(brock.Open(o))
		for range 3 { // takes numbers of files
			must(t, db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: true}))
		}
		for range 10 { // frames of more numbers than were shown
			must(t, db.Set(b("other"), b("of another past")))
		}
		must(t, db.Flush(t.Context()))
		must(t, db.Close())
	}
	takeOver(t, mem, other)
	_, err := follower.Refresh(t.Context())
	wantErr(t, "Refresh", err, brock.ErrForeign)
	wantEqual(t, "what was shown", string(must2(follower.Get(b("mine")))), "acknowledged")
}

// takeOver makes the files of the store in mem those of the store in other.
func takeOver(t *testing.T, mem, other *vfs.Mem) {
	t.Helper()
	for _, name := range must2(mem.List(dir)) {
		if name != "LOCK" {
			must(t, mem.Remove(dir+"/"+name))
		}
	}
	for _, name := range must2(other.List(dir)) {
		if name == "LOCK" {
			continue
		}
		from := must2(other.Open(dir + "/" + name))
		p := make([]byte, must2(from.Size()))
		if len(p) > 0 {
			must2(from.ReadAt(p, 0))
		}
		must(t, from.Close())
		to := must2(mem.Create(dir + "/" + name))
		must2(to.WriteAt(p, 0))
		must(t, to.Close())
	}
}
