package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestCopiesOfFollowedAreOfOneCommit copies a store from a follower while its writer commits, flushes,
// compacts, drops keyspaces and rotates keys on another goroutine. Each commit writes its number under
// all keys of two keyspaces: so a copy shows whether it is of one commit, and lacks none that was
// durable before.
func TestCopiesOfFollowedAreOfOneCommit(t *testing.T) {
	for _, keys := range []brock.KeyProvider{nil, storetest.MasterKey(1)} {
		t.Run(fmt.Sprint("encrypted ", keys != nil), func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewMem()
			o := storetest.Place{FS: mem, Dir: "/", Rename: mem.Rename}.TinyOptions("store", "values")
			o.Keys = keys
			db := storetest.Open(t, o)
			w := &numbering{db: db, rng: draw.Rand(t), kept: storetest.OpenKeyspace(t, db, "kept")}
			assert.OK(t, w.commit())
			assert.OK(t, db.Sync(t.Context()))
			f := storetest.OpenFollower(t, o)
			ctx, end := context.WithCancel(t.Context())
			var writer sync.WaitGroup
			writer.Go(func() {
				for ctx.Err() == nil {
					if err := w.step(ctx); err != nil && ctx.Err() == nil {
						t.Error(err)
						return
					}
				}
			})
			defer writer.Wait()
			defer end()
			for round := range 30 {
				least := w.done.Load()
				assert.OK(t, db.Sync(t.Context()))
				into := o
				into.Dir, into.ValueDir = fmt.Sprint("/copy ", round), ""
				if round%2 == 0 {
					assert.OK(t, f.Checkpoint(t.Context(), into.Dir))
				} else {
					var stream bytes.Buffer
					assert.Must(f.Backup(t.Context(), &stream, brock.BackupOptions{}))
					assert.Must(brock.Restore(t.Context(), &stream, into))
				}
				w.check(t, into, least)
			}
		})
	}
}

// numbering is a writer that numbers its commits.
type numbering struct {
	db   *brock.DB
	rng  *rand.Rand
	kept *brock.Keyspace
	next int64
	done atomic.Int64 // the last commit
}

// numberKeys is how many keys of each keyspace have the number.
const numberKeys = 20

func numberKey(i int) []byte { return fmt.Appendf(nil, "k%02d", i) }

// commit writes the next number, after the delete of what there is.
func (w *numbering) commit() error {
	w.next++
	err := w.db.Update(func(txn *brock.Txn) error {
		for _, to := range []*brock.Txn{txn, txn.In(w.kept)} {
			if err := to.DeleteRange(nil, nil); err != nil {
				return err
			}
			for i := range numberKeys {
				v := append(strconv.AppendInt(nil, w.next, 10), '.')
				if err := to.Set(numberKey(i), append(v, make([]byte, w.rng.IntN(3000))...)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err == nil {
		w.done.Store(w.next)
	}
	return err
}

func (w *numbering) step(ctx context.Context) error {
	switch w.rng.IntN(30) {
	case 0:
		return w.db.Flush(ctx)
	case 1:
		return w.db.Compact(ctx)
	case 2:
		return assert.ErrorOf(w.db.Reclaim(ctx))
	case 3:
		if w.db.Options().Keys != nil {
			return w.db.RotateKey(ctx, brock.RotateOptions{})
		}
		return nil
	case 4, 5:
		ks, err := w.db.Keyspace(fmt.Sprint("dropped ", w.next))
		return errors.Join(err, ks.Set([]byte("k"), make([]byte, 20_000)), ks.Drop(ctx))
	default:
		return w.commit()
	}
}

// check opens a copy, which must be of one commit from least on.
func (w *numbering) check(t *testing.T, o brock.Options, least int64) {
	t.Helper()
	db, err := brock.Open(o)
	assert.OK(t, err)
	defer func() { assert.OK(t, db.Close()) }()
	assert.OK(t, db.Verify(t.Context(), nil))
	seen := map[string]int{}
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		for _, from := range []*brock.Txn{txn, txn.In(assert.Must(db.Keyspace("kept")))} {
			for it, err := range from.All() {
				assert.OK(t, err)
				n, _, _ := bytes.Cut(assert.Must(it.ValueCopy(nil)), []byte("."))
				seen[string(n)]++
			}
		}
		return nil
	}))
	if len(seen) != 1 {
		t.Fatalf("a copy has keys of the commits %v", seen)
	}
	for n, keys := range seen {
		if at := assert.Must(strconv.ParseInt(n, 10, 64)); at < least || keys != 2*numberKeys {
			t.Errorf("a copy has %d keys of commit %s; %d was durable", keys, n, least)
		}
	}
}
