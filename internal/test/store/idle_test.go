package store

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

var restSeed = flag.Uint64("restseed", 0, "the one history of TestRestAfterAnything to run; 0 = some")

// After any history a store at rest finishes its background work. Then it has no
// goroutine and no timer, for a year.
func TestRestAfterAnything(t *testing.T) {
	n := 6
	switch {
	case *restSeed != 0:
		n = 1
	case *storetest.Every:
		n = 200
	case testing.Short():
		n = 3
	}
	for i := 0; i < n && !deadline.Near(t); i++ {
		seed := *restSeed
		if seed == 0 {
			seed = draw.Seed(t)
		}
		t.Run(fmt.Sprint("restseed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { restAfterAnything(t, seed) })
		})
	}
}

// restless does random calls on a store.
type restless struct {
	t     *testing.T
	rng   *rand.Rand
	mem   *vfs.Mem
	o     brock.Options
	db    *brock.DB
	txns  []*brock.Txn
	works atomic.Int64
}

const restTTL = 48 * time.Hour // at most

func restAfterAnything(t *testing.T, seed uint64) {
	r := &restless{t: t, rng: rand.New(rand.NewPCG(seed, 0x72657374)), mem: vfs.NewMem()}
	count := func(w brock.WorkInfo) { r.works.Add(1) }
	r.o = brock.Options{
		Dir: "/s", FS: r.mem, Durability: brock.Buffered, Keys: storetest.DrawKeys(t),
		Tuning: brock.Tuning{MemtableSize: 128 << 10, SegmentSize: 256 << 10, RunFileSize: 128 << 10},
		KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{
			Versions: r.rng.IntN(3), Age: time.Duration(r.rng.IntN(2)) * time.Hour,
		}},
		Events: brock.Events{Flush: count, Compaction: count, Collection: count},
	}
	r.db = assert.Must(brock.Open(r.o))
	for range 250 {
		r.step()
	}
	r.mem.SetCapacity(0)
	r.discardAll()
	<-time.After(time.Second) // the store polls for disk space
	assert.OK(t, r.db.Set([]byte("last"), nil))
	<-time.After(restTTL + restTTL/10)
	synctest.Wait()
	done := r.works.Load()
	if m := r.db.Metrics().Tree; m.ExpiryWait != 0 || m.ExpiredBytes != 0 {
		t.Errorf("%d bytes have expired and are there, the next look is in %v", m.ExpiredBytes, m.ExpiryWait)
	}
	assert.NoGoroutines(t, assert.StackOfReader, assert.StackOfWork)
	<-time.After(365 * 24 * time.Hour)
	synctest.Wait()
	if n := r.works.Load(); n != done {
		t.Errorf("%d pieces of work were done in a year of rest, %d before\n%v", n-done, done, r.db.Metrics())
	}
	assert.OK(t, r.db.Verify(context.Background(), nil))
	assert.OK(t, r.db.Close())
}

// passes checks that err is nil or one that random histories meet.
func (r *restless) passes(what string, err error) {
	r.t.Helper()
	if err != nil && (errors.Is(err, brock.ErrStopped) || !errors.Is(err, brock.ErrNoSpace) && !errors.Is(err, brock.ErrConflict) && !errors.Is(err, brock.ErrKeyspaceNotFound)) {
		r.t.Errorf("%s: %v", what, err)
	}
}

func (r *restless) key() []byte { return fmt.Appendf(nil, "key%04d", r.rng.IntN(1500)) }

// keyspace is the default one, or one of two others, made if it is not there.
func (r *restless) keyspace() *brock.Keyspace {
	n := r.rng.IntN(4)
	if n > 1 {
		return nil
	}
	ks, err := r.db.Keyspace(fmt.Sprint(n), []brock.KeyspaceOptions{{TTL: time.Hour}, {Versions: brock.Retention{Versions: 2}}}[n])
	r.passes("keyspace", err)
	return ks
}

// write commits a transaction of random writes, in files if memory is small.
func (r *restless) write(memory int64) {
	to := r.keyspace()
	err := r.db.UpdateContext(context.Background(), brock.TxnOptions{MaxMemory: memory}, func(txn *brock.Txn) error {
		txn = txn.In(to)
		for range 1 + r.rng.IntN(40) {
			k := r.key()
			var err error
			switch n := r.rng.IntN(40); {
			case n == 0:
				err = txn.DeleteRange(k, append(slices.Clone(k[:3+r.rng.IntN(4)]), 0xff))
			case n < 6:
				err = txn.Delete(k)
			default:
				e := brock.NewEntry(k, storetest.RandomBytes(n, []int{20, 600, 3000}[r.rng.IntN(3)]))
				if n < 20 {
					e.WithTTL([]time.Duration{time.Second, time.Minute, time.Hour, restTTL}[r.rng.IntN(4)])
				}
				err = txn.SetEntry(e)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	r.passes("update", err)
}

func (r *restless) step() {
	ctx := context.Background()
	switch n := r.rng.IntN(100); {
	case n < 60:
		r.write(0)
	case n < 64:
		r.write(4000)
	case n < 70: // may jump, and so lead to clustering
		txn := r.db.NewTransaction(false)
		for it, err := range txn.All() {
			r.passes("scan", err)
			assert.Must(it.Value())
		}
		if r.rng.IntN(2) == 0 {
			r.txns = append(r.txns, txn)
		} else {
			txn.Discard()
		}
	case n < 73:
		r.discardAll()
	case n < 80:
		<-time.After(time.Duration(r.rng.Int64N(int64([]time.Duration{time.Second, 10 * time.Second, time.Hour}[r.rng.IntN(3)]))))
	case n < 83:
		if ks := r.keyspace(); ks != nil {
			r.passes("drop", ks.Drop(ctx))
		}
	case n < 85:
		r.passes("drop prefix", r.db.DropPrefix(ctx, r.key()[:5]))
	case n < 88:
		r.passes("flush", r.db.Flush(ctx))
	case n < 89:
		r.passes("compact", r.db.Compact(ctx))
	case n < 91:
		_, err := r.db.Reclaim(ctx)
		r.passes("reclaim", err)
	case n < 94:
		r.mem.SetCapacity(r.mem.Used() + r.rng.Int64N(1<<20))
	case n < 98:
		r.mem.SetCapacity(0)
	default:
		r.discardAll()
		r.passes("close", r.db.Close())
		r.mem.SetCapacity(0)
		r.db = assert.Must(brock.Open(r.o))
	}
}

func (r *restless) discardAll() {
	for _, txn := range r.txns {
		txn.Discard()
	}
	r.txns = nil
}
