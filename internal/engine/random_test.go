package engine

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/vfs"
)

// past is what a store must remember: all versions of each key, oldest first,
// and under no key the deletes of ranges.
type past map[string][]moment

type moment struct {
	version entry.Version
	op
}

// at is what a reader at version finds, or nil.
func (h past) at(key string, version entry.Version, now uint64) *moment {
	for _, m := range slices.Backward(h[key]) {
		if m.version > version {
			continue
		}
		if m.version < h.deleted(key, version) || m.kind == entry.Delete || m.expires != 0 && m.expires <= now {
			return nil
		}
		return &m
	}
	return nil
}

// deleted is the newest delete of a range with key up to a version.
func (h past) deleted(key string, version entry.Version) (v entry.Version) {
	for _, m := range h[""] {
		if m.version <= version && m.key <= key && key < string(m.value) {
			v = max(v, m.version)
		}
	}
	return v
}

// forget drops everything newer than version.
func (h past) forget(version entry.Version) {
	for key, all := range h {
		h[key] = slices.DeleteFunc(all, func(m moment) bool { return m.version > version })
	}
}

// wanderer does random things to a store and compares it with its past.
type wanderer struct {
	*store
	rng    *rand.Rand
	mem    *vfs.Mem
	past   past
	pins   []*view.Pin
	synced entry.Version // this and all before it survive a crash
	big    bool          // some values are large enough for segments to be kept
	steps  []string
}

func (w *wanderer) keys() []string {
	var keys []string
	for i := range 24 {
		keys = append(keys, fmt.Sprintf("key%02d", i))
	}
	return keys
}

// wants describes what a reader at version must find, has what it finds.
func (w *wanderer) wants(version entry.Version) string {
	var out bytes.Buffer
	for _, key := range w.keys() {
		if m := w.past.at(key, version, uint64(w.clock)); m != nil {
			fmt.Fprintf(&out, "%s@%d=%s ", key, m.version, shown(key, m.value))
		}
	}
	return out.String()
}

func (w *wanderer) has(p *view.Pin) string {
	w.t.Helper()
	var out bytes.Buffer
	for _, key := range w.keys() {
		if value, version, found := w.lookup(p, key); found {
			fmt.Fprintf(&out, "%s@%d=%s ", key, version, shown(key, value))
		}
	}
	return out.String()
}

// walked is has by an iterator.
func (w *wanderer) walked(p *view.Pin) string {
	w.t.Helper()
	var out bytes.Buffer
	var last string
	it := p.Iterator()
	defer it.Close()
	cover := p.Cover(true)
	for ok := it.First(); ok; ok = it.Next() {
		e := it.Entry()
		if e.Version > p.Version() || string(e.Key) == last {
			continue
		}
		last = string(e.Key)
		if cover != nil && e.Version < cover.Newest(e.Key) || !e.Live(uint64(w.clock)) {
			continue
		}
		value, err := valueOf(p, e.Key, e)
		w.must(err)
		fmt.Fprintf(&out, "%s@%d=%s ", e.Key, e.Version, shown(last, value))
	}
	w.must(it.Err())
	return out.String()
}

func (w *wanderer) compare(what string, has, want string) {
	w.t.Helper()
	if has != want {
		w.t.Fatalf("%s\nhas  %s\nwant %s\nafter %v", what, has, want, w.steps)
	}
}

func (w *wanderer) write() {
	v := w.last + 1
	var ops []op
	for range 1 + w.rng.IntN(5) {
		key := w.keys()[w.rng.IntN(24)]
		o := op{key: key, kind: entry.Set}
		switch n := w.rng.IntN(21); {
		case n == 20:
			// The store takes what a transaction has not deleted itself.
			o = delRange(key, w.keys()[w.rng.IntN(24)]+"~")
			ops = slices.DeleteFunc(ops, func(x op) bool { return x.kind != entry.RangeDelete && o.key <= x.key && x.key < string(o.value) })
			if o.key >= string(o.value) {
				continue
			}
		case n < 4:
			o.kind = entry.Delete
		case n < 5:
			o.kind = entry.SetLatest
			o.value = bulk(key, w.rng.IntN(200))
		case n < 7 && w.big:
			o.value = bulk(key, 1<<20+w.rng.IntN(1<<20))
		default:
			o.value = bulk(key, w.rng.IntN(400))
		}
		if o.kind != entry.Delete && o.kind != entry.RangeDelete && w.rng.IntN(6) == 0 {
			o.expires = uint64(w.clock) + uint64(w.rng.IntN([]int{50, 100_000}[w.rng.IntN(2)]))
		}
		ops = append(ops, o)
	}
	if len(ops) == 0 {
		return
	}
	sync := w.rng.IntN(4) == 0
	w.must(w.commit(sync, ops...))
	if sync {
		w.synced = v
	}
	for _, o := range ops {
		if o.kind == entry.RangeDelete {
			w.past[""] = append(w.past[""], moment{v, o})
			continue
		}
		w.past[o.key] = append(slices.DeleteFunc(w.past[o.key], func(m moment) bool { return m.version == v }), moment{v, o})
	}
}

func (w *wanderer) step() {
	ctx := context.Background()
	switch n := w.rng.IntN(100); {
	case n < 50:
		w.write()
	case n < 56:
		w.steps = append(w.steps, "seal")
		w.seal()
	case n < 64:
		w.steps = append(w.steps, "flush one")
		tables := w.engine.views.Current().Tables
		newest := tables[len(tables)-1].MaxVersion()
		did, err := w.engine.Work.flusher.flushOldest(ctx)
		w.must(err)
		if did {
			w.synced = max(w.synced, newest)
		}
	case n < 68:
		w.steps = append(w.steps, "settle")
		w.must(w.engine.Work.workAtRest(ctx))
	case n < 76:
		w.mergeSome()
	case n < 84 && len(w.pins) < 6:
		at := entry.Version(0)
		if visible, floor := w.engine.Views.Visible(), w.engine.views.Floors.LowestFloor(); w.rng.IntN(2) == 0 && visible > floor {
			at = max(1, floor+entry.Version(w.rng.IntN(int(visible-floor))))
		}
		p := w.pin(at)
		w.steps = append(w.steps, fmt.Sprint("pin ", p.Version()))
		w.pins = append(w.pins, p)
	case n < 90 && len(w.pins) > 0:
		i := w.rng.IntN(len(w.pins))
		w.steps = append(w.steps, fmt.Sprint("unpin ", w.pins[i].Version()))
		w.pins[i].Release()
		w.pins = slices.Delete(w.pins, i, i+1)
	case n < 93:
		w.clock += int64(w.rng.IntN([]int{40, 40, 40, 100_000}[w.rng.IntN(4)]))
		w.steps = append(w.steps, fmt.Sprint("clock ", w.clock))
	case n < 95:
		w.reopen()
	case n < 97:
		w.crash()
	case n < 99:
		w.rest()
	default: // what was kicked
		w.engine.cfg.Jobs.Ring()
		w.engine.cfg.Jobs.Step()
	}
}

// rest is silence of writers for some time, in which all work is done. Then nothing
// is left that expired a minute ago, whatever readers hold, and the alarm is set
// for what will expire, and not if there is no such thing.
func (w *wanderer) rest() {
	w.t.Helper()
	w.steps = append(w.steps, fmt.Sprint("rest ", w.clock))
	for range 3 {
		w.workAtRest()
		p := w.pin(0)
		expires := false
		it := p.Iterator()
		for ok := it.First(); ok; ok = it.Next() {
			e := it.Entry()
			if expires = expires || e.Expires != 0; e.Expires != 0 && e.Expires+60_000 <= uint64(w.clock) {
				w.t.Fatalf("%s of version %d expired at %d, is still there at %d\nafter %v", e.Key, e.Version, e.Expires, w.clock, w.steps)
			}
		}
		w.must(it.Err())
		it.Close()
		p.Release()
		left, set := w.engine.tasks.expiry.Left()
		due := w.engine.nextExpiryDue(true) // also for what was replaced within a transaction
		wait := time.Duration(int64(due)-w.clock) * time.Millisecond
		if set != (due != 0) || expires && !set || left > max(wait, policy.ExpiryLeastWait) {
			w.t.Fatalf("something expires: %v, due in %v, but the alarm is set: %v, and rings in %v\nafter %v", expires, wait, set, left, w.steps)
		}
		w.clock += w.rng.Int64N(100_000)
	}
}

// workAtRest does all work that timers bring to a store at rest by now.
func (w *wanderer) workAtRest() {
	w.t.Helper()
	pool := w.engine.cfg.Jobs
	for range 10 {
		if pool.Idle()+pool.Ring() == 0 {
			return
		}
		for worked := true; worked; {
			_, ok, err := pool.Step()
			w.must(err)
			worked = ok
		}
		if w.engine.isIdle() && (w.engine.nextExpiryDue(true) == 0 || w.engine.nextExpiryDue(true) > uint64(w.clock)) {
			return
		}
	}
	w.t.Fatalf("work at rest does not end\nafter %v", w.steps)
}

// mergeSome merges some runs that follow each other.
func (w *wanderer) mergeSome() {
	runs := w.engine.views.Current().Layout.Runs()
	if len(runs) == 0 {
		return
	}
	from := w.rng.IntN(len(runs))
	to := from + 1 + w.rng.IntN(len(runs)-from)
	var ids []layout.RunID
	for _, r := range runs[from:to] {
		ids = append(ids, r.ID)
	}
	w.steps = append(w.steps, fmt.Sprint("merge ", ids))
	w.must(w.engine.Work.compactor.carryOut(context.Background(), &policy.Compaction{Runs: ids, Reason: "test"}))
}

func (w *wanderer) releaseAll() {
	for _, p := range w.pins {
		p.Release()
	}
	w.pins = nil
}

func (w *wanderer) reopen() {
	w.steps = append(w.steps, "reopen")
	w.close()
	for _, p := range w.pins { // they outlive the store
		w.compare("a pin after Close", w.has(p), w.wants(p.Version()))
	}
	w.releaseAll()
	w.mustOpen()
	w.synced = w.last
}

// crash keeps some of what was not durable. What is left must be what there was
// at some version that was not older than the last one known to be durable.
func (w *wanderer) crash() {
	mode := []vfs.CrashMode{vfs.Lost, vfs.All, vfs.Prefix, vfs.Chaos}[w.rng.IntN(4)]
	left := w.mem.CrashClone(vfs.CrashOptions{Mode: mode, Seed: w.rng.Uint64()})
	last := w.last
	w.steps = append(w.steps, fmt.Sprintf("crash %d, synced %d of %d", mode, w.synced, last))
	w.releaseAll()
	w.close()
	w.mem, w.fs = left, left
	w.mustOpen()
	p := w.pin(0)
	defer p.Release()
	has := w.has(p)
	for v := last; ; v-- {
		if has == w.wants(v) {
			w.past.forget(v)
			w.synced = v
			return
		}
		if v <= w.synced || v == 0 {
			w.compare("after a crash", has, w.wants(w.synced))
		}
	}
}

// verify compares all readers with the past, and the store with itself.
func (w *wanderer) verify() {
	w.t.Helper()
	if problems := w.check(); problems != "" {
		w.t.Fatalf("%s\nafter %v", problems, w.steps)
	}
	now := w.pin(0)
	defer now.Release()
	for _, p := range append(slices.Clone(w.pins), now) {
		want := w.wants(p.Version())
		w.compare(fmt.Sprint("gets at version ", p.Version()), w.has(p), want)
		w.compare(fmt.Sprint("a walk at version ", p.Version()), w.walked(p), want)
	}
}

// Random writes, work, readers, reopening and crashes: every reader finds what
// there was at its version, and nothing is ever unaccounted for.
func TestRandomHistories(t *testing.T) {
	const base = 1 // change it to see other histories
	for seed := range uint64(24) {
		seed += base
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 3))
			mem := vfs.NewMem()
			s := newStore(t, mem, func(s *store) {
				s.cfg.NoMap = seed%3 == 0
				s.cfg.Policy.Versions = int(seed % 4)
				s.cfg.SegmentBytes = []int64{5000, 8 << 20}[seed%2]
				if seed%5 == 0 {
					s.cfg.MemtableBytes = 1
				}
			})
			w := &wanderer{store: s, rng: rng, mem: mem, past: past{}, big: seed%12 == 1}
			for i := range 300 {
				w.step()
				if i%10 == 0 {
					w.verify()
				}
			}
			w.verify()
			w.releaseAll()
			w.close()
		})
	}
}
