package emptied

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/rangedel"
)

var seeds = flag.Int("seeds", 0, "histories of TestEmptiedRangesHideNothing; 0 = a few")

// Whatever was deleted in whatever order, beside whatever else: who skips emptied
// ranges, and notes more of them, sees what is there, at every version and in every
// View that is pinned.
func TestEmptiedRangesHideNothing(t *testing.T) {
	n := *seeds
	if n == 0 {
		n = 60
	}
	if testing.Short() {
		n = min(n, 15)
	}
	skips := 0
	for seed := range uint64(n) {
		h := &history{store: newStore(t), rng: rand.New(rand.NewPCG(seed, 21)), way: 1}
		h.hasty = seed%2 == 1
		h.applied = func() {
			if h.rng.IntN(1000) == 0 {
				h.search()
				h.pin()
			}
		}
		for range 60 {
			h.step()
			for _, r := range append(h.readers[:len(h.readers):len(h.readers)], h.reader()) {
				if r.check() {
					skips++
				}
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
	if skips < 10*n {
		t.Errorf("only %d walks in %d histories have skipped something", skips, n)
	}
}

// history is a store to which anything happens.
type history struct {
	*store
	rng     *rand.Rand
	at, way int // where the last deletes in order have ended, and their direction
}

const historyKeys = 300

func key(i int) []byte { return fmt.Appendf(nil, "k%05d", i) }

func set(i int) entry.Entry { return entry.Entry{Key: key(i), Kind: entry.Set, Value: []byte("v")} }

func del(i int) entry.Entry { return entry.Entry{Key: key(i), Kind: entry.Delete} }

func (h *history) step() {
	rng := h.rng
	switch n := rng.IntN(20); n {
	case 0, 1, 2:
		h.deleteInOrder()
	case 3, 4, 5:
		h.deleteInNoOrder()
	case 6, 7:
		var ops []entry.Entry
		for range 1 + rng.IntN(60) {
			e := set(rng.IntN(historyKeys))
			if rng.IntN(4) == 0 {
				e.Expires = h.clock + uint64(1+rng.IntN(3))
			}
			ops = append(ops, e)
		}
		h.commit(ops...)
	case 18: // deletes first, then a set among them
		lo := rng.IntN(historyKeys - 100)
		var ops []entry.Entry
		for i := range 100 {
			ops = append(ops, del(lo+i))
		}
		h.commit(append(ops, set(lo+rng.IntN(100)))...)
	case 8:
		lo := rng.IntN(historyKeys)
		h.commit(entry.Entry{Kind: entry.RangeDelete, Key: key(lo), Value: key(lo + 1 + rng.IntN(50))})
	case 9:
		h.spill()
	case 10:
		h.flush()
	case 11:
		h.seal()
	case 12:
		h.compact()
	case 13, 14:
		h.pin()
	case 15:
		if len(h.readers) > 0 {
			h.unpin(rng.IntN(len(h.readers)))
		}
	case 16:
		h.clock++
	case 17:
		h.expire()
	default:
		h.search()
	}
}

// deleteInOrder deletes keys up or down, in one commit or many, with holes, perhaps
// from where the last such deletes have ended.
func (h *history) deleteInOrder() {
	rng := h.rng
	from, count, hole, way := rng.IntN(historyKeys), 20+rng.IntN(200), rng.IntN(3)*rng.IntN(40), 1-2*rng.IntN(2)
	if rng.IntN(2) == 0 {
		from, way = h.at, h.way
	}
	h.at, h.way = from+way*count, way
	var ops []entry.Entry
	for j := range count {
		i := from + way*j
		if i < 0 || i >= historyKeys || hole > 0 && j%hole == hole-1 {
			continue
		}
		if ops = append(ops, del(i)); rng.IntN(50) == 0 {
			h.commit(ops...)
			ops = nil
		}
	}
	if len(ops) > 0 {
		h.commit(ops...)
	}
}

// expire lets a key expire among keys that are deleted, while a reader sees it.
func (h *history) expire() {
	i := h.rng.IntN(historyKeys)
	e := set(i)
	e.Expires = h.clock + 1
	ops := []entry.Entry{e}
	for j := max(i-40, 0); j < min(i+40, historyKeys); j++ {
		if j != i {
			ops = append(ops, del(j))
		}
	}
	h.commit(ops...)
	h.pin()
	h.clock++
	h.flush()
	h.compact()
}

func (h *history) deleteInNoOrder() {
	rng := h.rng
	from, count, batch := rng.IntN(historyKeys), 50+rng.IntN(historyKeys), 1+rng.IntN(60)
	var ops []entry.Entry
	for _, j := range rng.Perm(count) {
		if ops = append(ops, del((from+j)%historyKeys)); len(ops) < batch {
			continue
		}
		h.commit(ops...)
		if ops = nil; rng.IntN(3*count) < batch {
			break
		}
	}
}

// spill commits a transaction larger than its memory, others meanwhile.
func (h *history) spill() {
	rng := h.rng
	from, count := rng.IntN(historyKeys), 50+rng.IntN(historyKeys)
	var ops []entry.Entry
	for _, j := range rng.Perm(min(count, historyKeys)) {
		if i := (from + j) % historyKeys; rng.IntN(100) > 0 {
			ops = append(ops, del(i))
		} else {
			ops = append(ops, set(i))
		}
	}
	h.commitSpilled(func() {
		for range rng.IntN(3) {
			h.commit(set(rng.IntN(historyKeys)), del(rng.IntN(historyKeys)))
		}
	}, ops...)
}

// However many ranges are noted, of however long keys, memory stays bounded; and the
// newest ones stay.
func TestNotesAreBounded(t *testing.T) {
	for _, size := range []int{10, 10_000} {
		var k Known
		for i := range 5000 {
			lo := fmt.Appendf(nil, "%0*d", size, 2*i)
			k.Note(rangedel.Emptied(lo, append(lo, 'a'), entry.Version(i)))
			n := k.noted.Load()
			if n.Len() > mostRanges || n.Bytes() > mostNoted+2*(size+1) {
				t.Fatalf("keys of %d bytes: %d ranges, %d bytes", size, n.Len(), n.Bytes())
			}
			if n.Newest(lo, entry.MaxVersion) == 0 {
				t.Fatal("the last note is not known")
			}
		}
	}
}
