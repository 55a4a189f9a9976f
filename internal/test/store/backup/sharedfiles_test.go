package backup

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// lent is a transaction and a value that it has handed out, which lies in a file.
type lent struct {
	txn         *brock.Txn
	slice, want []byte
}

// lend begins a transaction of db and takes the value of key.
func lend(t *testing.T, db *brock.DB, key string) *lent {
	t.Helper()
	txn := db.NewTransaction(false)
	t.Cleanup(txn.Discard)
	it, err := txn.Get([]byte(key))
	assert.OK(t, err)
	slice := assert.Must(it.Value())
	return &lent{txn, slice, bytes.Clone(slice)}
}

// check compares the slice with what it was.
func (l *lent) check(t *testing.T, when string) {
	t.Helper()
	if !bytes.Equal(l.slice, l.want) {
		t.Fatalf("%s: a slice of a transaction that is not discarded has changed", when)
	}
}

// rewrite writes n keys again and again, so that journal segments come and go.
func rewrite(t *testing.T, db *brock.DB, n int, check func(when string)) {
	t.Helper()
	for round := range 15 {
		for i := range n {
			assert.OK(t, db.Set(fmt.Appendf(nil, "k%d", i), storetest.RandomBytes(round%3*1000+i, 100_000)))
		}
		assert.OK(t, db.Flush(t.Context()))
		check(fmt.Sprintf("round %d", round))
	}
}

// TestSlicesOutliveTheNextOpen: what a transaction of a closed store has handed out stays as it
// is while the next one of the same directory flushes, drops and makes journal segments.
func TestSlicesOutliveTheNextOpen(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]brock.OpenMode{"writer": brock.ReadWrite, "read-only": brock.ReadOnly, "follower": brock.Follow} {
		t.Run(name, func(t *testing.T) {
			storetest.OnEach(t, func(t *testing.T, p storetest.Place) {
				o := brock.Options{Dir: p.Join("store"), FS: p.FS, Durability: brock.Buffered, Tuning: brock.Tuning{SegmentSize: 256 << 10}}
				o.KeyspaceDefaults.ValueThreshold = 256
				o.Maintenance.IdleAfter = time.Hour
				first, err := brock.Open(o)
				assert.OK(t, err)
				for i := range 2 {
					assert.OK(t, first.Set(fmt.Appendf(nil, "k%d", i), storetest.RandomBytes(i, 100_000)))
				}
				if mode != brock.ReadWrite {
					assert.OK(t, first.Close())
					read := o
					read.Mode = mode
					if first, err = brock.Open(read); err != nil {
						t.Skip(err)
					}
				}
				l := lend(t, first, "k1")
				assert.OK(t, first.Close())
				l.check(t, "after Close")
				second, err := brock.Open(o)
				assert.OK(t, err)
				defer second.Close()
				rewrite(t, second, 2, func(when string) { l.check(t, when) })
			})
		})
	}
}

// TestSlicesOutliveACheckpointsFiles: a follower of a store keeps what it has handed out while
// the store and its checkpoint, which share the file, both drop it and write on.
func TestSlicesOutliveACheckpointsFiles(t *testing.T) {
	t.Parallel()
	storetest.OnEach(t, func(t *testing.T, p storetest.Place) {
		o := brock.Options{Dir: p.Join("store"), FS: p.FS, Durability: brock.Buffered, Tuning: brock.Tuning{SegmentSize: 16 << 20}}
		o.KeyspaceDefaults.ValueThreshold = 256
		o.Maintenance.IdleAfter = time.Hour
		source, err := brock.Open(o)
		assert.OK(t, err)
		defer source.Close()
		for i := range 60 { // 6 MB of live values in one journal file: it is kept
			assert.OK(t, source.Set(fmt.Appendf(nil, "k%d", i), storetest.RandomBytes(i, 100_000)))
		}
		assert.OK(t, source.Flush(t.Context()))
		copied := o
		copied.Dir = p.Join("copy")
		assert.OK(t, source.Checkpoint(t.Context(), copied.Dir))
		l := lend(t, storetest.OpenFollower(t, o), "k1")
		drop := func(db *brock.DB) {
			assert.OK(t, db.DropAll(t.Context()))
			assert.OK(t, db.Compact(t.Context()))
		}
		drop(source)
		made, err := brock.Open(copied)
		assert.OK(t, err)
		defer made.Close()
		drop(made)
		rewrite(t, made, 60, func(when string) { l.check(t, when) })
		if storetest.Get(l.txn, "k1") != string(l.want) {
			t.Error("the follower's transaction reads another value")
		}
	})
}
