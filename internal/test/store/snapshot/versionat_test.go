package snapshot

import (
	"fmt"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestVersionAt compares VersionAt with a log of all commits and their times: it never names a version
// that was committed later, it names one at least as new as the last flush before, and transactions
// can read it until retention says that it is gone.
func TestVersionAt(t *testing.T) {
	t.Parallel()
	r := draw.Rand(t)
	now := storetest.NewClock(1e12)
	start := now.Now()
	p := storetest.Place{FS: vfs.NewMem(), Dir: "/"}
	o := p.TinyOptions("store", "")
	o.Now, o.KeyspaceDefaults.Versions.Age = now.Now, time.Hour
	o.Maintenance.IdleAfter = 1000 * time.Hour
	db, err := brock.Open(o)
	assert.OK(t, err)
	defer func() { assert.OK(t, db.Close()) }()
	_, err = db.VersionAt(now.Now().Add(-time.Second))
	assert.Error(t, "of an empty store", err, brock.ErrVersionGone)
	assert.Equal(t, "now, of an empty store", assert.Must(db.VersionAt(now.Now())), 0)
	type logged struct{ millis, version int64 }
	var commits, flushes []logged // when each version was committed, and which one was flushed
	atOrBefore := func(list []logged, millis int64) (version uint64) {
		for _, l := range list {
			if l.millis <= millis {
				version = uint64(l.version)
			}
		}
		return version
	}
	check := func() {
		oldest := now.Now().Add(-time.Hour).UnixMilli()
		for range 20 {
			at := start.UnixMilli() - 1000 + r.Int64N(now.Millis.Load()-start.UnixMilli()+2000)
			if len(commits) > 0 && r.IntN(2) == 0 { // at a commit, and around it
				at = commits[r.IntN(len(commits))].millis + r.Int64N(3) - 1
			}
			v, err := db.VersionAt(time.UnixMilli(at))
			least, most := atOrBefore(flushes, at-1), atOrBefore(commits, at)
			if err != nil {
				assert.Error(t, "VersionAt", err, brock.ErrVersionGone)
				if least > 0 && at > oldest {
					t.Fatalf("version at %d is gone, and %d was flushed before", at, least)
				}
				continue
			}
			if v > most || v < least {
				t.Fatalf("version at %d is %d, want %d to %d", at, v, least, most)
			}
			txn, err := db.Begin(t.Context(), brock.TxnOptions{ReadAt: v})
			assert.OK(t, err)
			assert.Equal(t, "key", storetest.Get(txn, "key"), fmt.Sprint(v))
			txn.Discard()
		}
	}
	for range 400 {
		now.Add(time.Duration(r.IntN(3)) * time.Duration(r.IntN(30_000)) * time.Millisecond)
		assert.OK(t, db.Set([]byte("key"), fmt.Append(nil, db.Version()+1)))
		commits = append(commits, logged{now.Millis.Load(), int64(db.Version())})
		switch r.IntN(20) {
		case 0, 1:
			assert.OK(t, db.Flush(t.Context()))
			flushes = append(flushes, commits[len(commits)-1])
		case 2:
			assert.OK(t, db.Compact(t.Context()))
		case 3:
			assert.OK(t, db.Close())
			db, err = brock.Open(o)
			assert.OK(t, err)
		case 4:
			check()
		}
	}
	check()
	for _, ahead := range []time.Duration{0, time.Millisecond, 1000 * time.Hour} {
		assert.Equal(t, "now or later", assert.Must(db.VersionAt(now.Now().Add(ahead))), db.Version())
	}
	_, err = db.VersionAt(time.Time{})
	assert.Error(t, "long ago", err, brock.ErrVersionGone)
	_, err = new(brock.DB).VersionAt(now.Now())
	assert.Error(t, "of no store", err, brock.ErrClosed)
}

// TestVersionAtIsGone: without retention an old version is gone once it was replaced and flushed.
func TestVersionAtIsGone(t *testing.T) {
	now := storetest.NewClock(1e12)
	db := storetest.Open(t, brock.Options{Now: now.Now})
	storetest.Set(t, db, "a=1")
	assert.OK(t, db.Flush(t.Context()))
	now.Add(time.Minute)
	then := now.Now()
	now.Add(time.Minute)
	storetest.Set(t, db, "a=2")
	assert.OK(t, db.Flush(t.Context()))
	_, err := db.VersionAt(then)
	assert.Error(t, "VersionAt", err, brock.ErrVersionGone)
}
