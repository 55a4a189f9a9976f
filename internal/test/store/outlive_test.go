package store

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/brockdb/brock"
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
	it, err := txn.Get(b(key))
	must(t, err)
	slice := must2(it.Value())
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
			must(t, db.Set(fmt.Appendf(nil, "k%d", i), incompressible(round%3*1000+i, 100_000)))
		}
		must(t, db.Flush(t.Context()))
		check(fmt.Sprintf("round %d", round))
	}
}

// TestSlicesOutliveTheNextOpen: what a transaction of a closed store has handed out stays as it
// is while the next one of the same directory flushes, drops and makes journal segments.
func TestSlicesOutliveTheNextOpen(t *testing.T) {
	for name, mode := range map[string]brock.OpenMode{"writer": brock.ReadWrite, "read-only": brock.ReadOnly, "follower": brock.Follow} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, p place) {
				o := brock.Options{Dir: p.in("store"), FS: p.fs, Durability: brock.Buffered, Tuning: brock.Tuning{SegmentSize: 256 << 10}}
				o.KeyspaceDefaults.ValueThreshold = 256
				o.Maintenance.IdleAfter = time.Hour
				first, err := brock.Open(o)
				must(t, err)
				for i := range 2 {
					must(t, first.Set(fmt.Appendf(nil, "k%d", i), incompressible(i, 100_000)))
				}
				if mode != brock.ReadWrite {
					must(t, first.Close())
					read := o
					read.Mode = mode
					if first, err = brock.Open(read); err != nil {
						t.Skip(err)
					}
				}
				l := lend(t, first, "k1")
				must(t, first.Close())
				l.check(t, "after Close")
				second, err := brock.Open(o)
				must(t, err)
				defer second.Close()
				rewrite(t, second, 2, func(when string) { l.check(t, when) })
			})
		})
	}
}

// TestSlicesOutliveACheckpointsFiles: a follower of a store keeps what it has handed out while
// the store and its checkpoint, which share the file, both drop it and write on.
func TestSlicesOutliveACheckpointsFiles(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		o := brock.Options{Dir: p.in("store"), FS: p.fs, Durability: brock.Buffered, Tuning: brock.Tuning{SegmentSize: 16 << 20}}
		o.KeyspaceDefaults.ValueThreshold = 256
		o.Maintenance.IdleAfter = time.Hour
		source, err := brock.Open(o)
		must(t, err)
		defer source.Close()
		for i := range 60 { // 6 MB of live values in one journal file: it is kept
			must(t, source.Set(fmt.Appendf(nil, "k%d", i), incompressible(i, 100_000)))
		}
		must(t, source.Flush(t.Context()))
		copied := o
		copied.Dir = p.in("copy")
		must(t, source.Checkpoint(t.Context(), copied.Dir))
		l := lend(t, follow(t, o), "k1")
		drop := func(db *brock.DB) {
			must(t, db.DropAll(t.Context()))
			must(t, db.Compact(t.Context()))
		}
		drop(source)
		made, err := brock.Open(copied)
		must(t, err)
		defer made.Close()
		drop(made)
		rewrite(t, made, 60, func(when string) { l.check(t, when) })
		if get(l.txn, "k1") != string(l.want) {
			t.Error("the follower's transaction reads another value")
		}
	})
}
