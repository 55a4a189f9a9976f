package metamorphic

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/vfs"
)

// fullRun writes, deletes and collects on a disk that fills up and empties at
// random, and crashes in between. The store must hold exactly what it acknowledged:
// a refused write has not happened.
type fullRun struct {
	t     *testing.T
	rng   *rand.Rand
	seed  uint64
	mem   *vfs.Mem
	db    *brock.DB
	o     brock.Options
	model map[string]string
	side  map[string]string // content of the other keyspace; nil: there is none
	n     int               // steps
	works works

	refused, crashes, reopened, waited int
}

func TestDiskThatFillsUp(t *testing.T) {
	runs, steps := 8, 300
	if testing.Short() || raced {
		runs, steps = 4, 150
	}
	for i := range runs {
		seed := draw.Seed(t)
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			r := &fullRun{t: t, rng: rand.New(rand.NewPCG(seed, 21)), seed: seed, mem: vfs.NewMem(), model: map[string]string{}}
			r.o = brock.Options{
				Dir: "/db", Keys: keysOf(seed), Tuning: brock.Tuning{MemtableSize: 64 << 10, SegmentSize: 128 << 10, RunFileSize: 128 << 10},
				Maintenance: brock.Maintenance{IdleAfter: 20 * time.Millisecond, GarbageRatio: 0.1 + 0.5*r.rng.Float64()},
				Events:      brock.Events{BackgroundError: func(err error) { r.errorf("background work has ended: %v", err) }},
			}
			if i%4 == 3 {
				r.o.DiskLimit = 2 << 20
			}
			r.works.count(&r.o.Events)
			r.open()
			for r.n = range steps {
				r.step()
				if t.Failed() {
					return
				}
			}
			r.recovers()
			if restless := r.works.rest(t, r.o.Maintenance.IdleAfter, false); restless != "" {
				r.errorf("work goes on and on, %d pieces so far: %v", r.works.Load(), r.db.Metrics())
			}
			t.Logf("%d writes refused, %d crashes, %d times opened again, %d waits for space", r.refused, r.crashes, r.reopened, r.waited)
		})
	}
}

func (r *fullRun) errorf(format string, args ...any) {
	r.t.Helper()
	r.t.Errorf("seed %d, step %d: %s", r.seed, r.n, fmt.Sprintf(format, args...))
}

func (r *fullRun) open() {
	r.o.FS = r.mem
	db, err := brock.Open(r.o)
	if err != nil {
		r.t.Fatalf("seed %d, step %d: open: %v", r.seed, r.n, err)
	}
	r.db = db
}

// passes checks that err is nil, or ErrNoSpace without ErrStopped.
func (r *fullRun) passes(what string, err error) bool {
	if err != nil && (!errors.Is(err, brock.ErrNoSpace) || errors.Is(err, brock.ErrStopped)) {
		r.errorf("%s: %v", what, err)
	}
	return err == nil
}

func (r *fullRun) step() {
	switch p := r.rng.IntN(100); {
	case p < 70:
		for range r.rng.IntN(30) {
			r.write()
		}
	case p < 74:
		r.passes("flush", r.db.Flush(context.Background()))
	case p < 78:
		_, err := r.db.Reclaim(context.Background())
		r.passes("reclaim", err)
	case p < 86:
		r.mem.SetCapacity(r.mem.Used() + r.rng.Int64N(1<<20) - r.rng.Int64N(1<<19))
	case p < 90:
		r.mem.SetCapacity(0)
	case p < 93:
		r.recovers()
	case p < 94:
		r.crash()
	case p < 95:
		r.turnSide()
	case p < 98:
		r.passes("close", r.db.Close())
		r.open()
		r.reopened++
		r.compare()
	default:
		r.compare()
	}
}

// write commits a transaction of sets and deletes, in memory or in files. It happens
// as a whole or not at all.
func (r *fullRun) write() {
	next, side := maps.Clone(r.model), maps.Clone(r.side)
	b := r.db.NewBatch()
	var to, beside writer = b, nil
	commit := func() error {
		_, err := b.Commit(context.Background(), 0)
		return err
	}
	if r.side != nil {
		beside = b.In(r.keyspace())
	}
	if r.rng.IntN(8) == 0 {
		txn, err := r.db.Begin(context.Background(), brock.TxnOptions{Update: true, MaxMemory: pick[int64](r.rng, 1, 5000)})
		must(r.t, "begin", err)
		defer txn.Discard()
		to, commit = txn, txn.Commit
		if r.side != nil {
			beside = txn.In(r.keyspace())
		}
	}
	deletes := r.rng.IntN(3) == 0
	for range 1 + r.rng.IntN(6)*r.rng.IntN(2) {
		w, m := to, next
		if beside != nil && r.rng.IntN(4) == 0 {
			w, m = beside, side
		}
		if !r.passes("write", r.writeOne(w, m, deletes)) {
			r.refused++
			return
		}
	}
	if !r.passes("commit", commit()) {
		r.refused++
		return
	}
	r.model, r.side = next, side
}

// writeOne does the same to a store and to the model of a keyspace.
func (r *fullRun) writeOne(to writer, m map[string]string, deletes bool) error {
	key := fmt.Sprintf("key %03d", r.rng.IntN(400))
	switch {
	case r.rng.IntN(20) == 0:
		upper := fmt.Sprintf("key %03d", r.rng.IntN(400))
		maps.DeleteFunc(m, func(k, _ string) bool { return key <= k && k < upper })
		return to.DeleteRange([]byte(key), []byte(upper))
	case deletes || r.rng.IntN(8) == 0:
		delete(m, key)
		return to.Delete([]byte(key))
	}
	value := make([]byte, 10+r.rng.IntN(100)+r.rng.IntN(4000)*r.rng.IntN(2))
	copy(value, fmt.Sprint(key, r.rng.Uint64()))
	m[key] = string(value)
	return to.SetEntry(brock.NewEntry([]byte(key), value))
}

const sideKeyspace = "side"

func (r *fullRun) keyspace() *brock.Keyspace {
	for ks := range r.db.Keyspaces() {
		return ks
	}
	r.errorf("the keyspace is not there")
	return nil
}

// turnSide makes or drops the other keyspace.
func (r *fullRun) turnSide() {
	if r.side == nil {
		if _, err := r.db.Keyspace(sideKeyspace); r.passes("make a keyspace", err) {
			r.side = map[string]string{}
		}
		return
	}
	if r.passes("drop a keyspace", r.keyspace().Drop(context.Background())) {
		r.side = nil
	}
}

// compare checks that the store holds exactly what was acknowledged.
func (r *fullRun) compare() {
	r.t.Helper()
	there := false
	for range r.db.Keyspaces() {
		there = true
	}
	if there != (r.side != nil) {
		r.errorf("the keyspace is there: %v", there)
		return
	}
	must(r.t, "read", r.db.View(func(txn *brock.Txn) error {
		r.compareAll(txn, r.model)
		if there {
			r.compareAll(txn.In(r.keyspace()), r.side)
		}
		return nil
	}))
}

func (r *fullRun) compareAll(txn *brock.Txn, want map[string]string) {
	r.t.Helper()
	left := maps.Clone(want)
	for item, err := range txn.All() {
		if err != nil {
			r.errorf("%v", err)
			return
		}
		value, err := item.Value()
		if want, ok := left[string(item.Key())]; err != nil || !ok || want != string(value) {
			r.errorf("%q is %.30q (%v), want %.30q (%v)", item.Key(), value, err, want, ok)
			return
		}
		delete(left, string(item.Key()))
	}
	for key := range left {
		r.errorf("%q is lost", key)
		return
	}
}

// crash opens what a crash leaves, on a disk that is as full as before.
func (r *fullRun) crash() {
	mode := vfs.CrashMode(r.rng.IntN(4))
	clone := r.mem.CrashClone(vfs.CrashOptions{Mode: mode, Seed: r.rng.Uint64()})
	r.passes("close", r.db.Close())
	r.mem = clone
	r.open()
	r.crashes++
	r.compare()
}

// recovers frees disk space: writes succeed again without a call, and nothing is lost.
func (r *fullRun) recovers() {
	r.mem.SetCapacity(0)
	limit := r.o.DiskLimit > 0
	deadline.Wait(r.t, "writes succeed again", func() bool {
		if r.passes("set", r.db.Set([]byte("key 000"), []byte("x"))) {
			return true
		}
		if r.waited++; !limit {
			return false
		}
		// More disk space does not help: some of the data must go.
		for i := range 400 {
			if r.passes("delete", r.db.Delete(fmt.Appendf(nil, "key %03d", i))) {
				delete(r.model, fmt.Sprintf("key %03d", i))
			}
		}
		if r.side != nil {
			r.turnSide()
		}
		_, err := r.db.Reclaim(context.Background())
		r.passes("reclaim", err)
		return false
	})
	r.model["key 000"] = "x"
	must(r.t, "flush", r.db.Flush(context.Background()))
	must(r.t, "verify", r.db.Verify(context.Background(), nil))
	r.compare()
}
