package tree

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/brockdb/brock/vfs"
)

// keysOf are the keys that a Pin shows, with voids skipped or not.
func (s *store) keysOf(p *Pin, voids bool) (keys string, skipped bool) {
	s.t.Helper()
	var out strings.Builder
	it := p.Iterator()
	defer it.Close()
	cover := p.Cover(voids)
	last := ""
	for ok := it.First(); ok; {
		e := it.Entry()
		hidden := cover != nil && e.Version < cover.Newest(e.Key)
		switch {
		case e.Version > p.Version() || string(e.Key) == last:
		case hidden && voids:
			// As a walk does: what is hidden by a void is left out all at once.
			_, end := cover.Stretch()
			last, skipped = string(e.Key), true
			ok = it.SkipGE(end, cover.Newest(e.Key))
			continue
		default:
			last = string(e.Key)
			if !hidden && e.Live(0) {
				fmt.Fprintf(&out, "%s@%d ", e.Key, e.Version)
			}
		}
		ok = it.Next()
	}
	s.must(it.Err())
	return out.String(), skipped
}

// Whatever was deleted in whatever order, beside whatever else: who skips voids
// sees what all others see, at every version that is pinned.
func TestVoidsHideNothing(t *testing.T) {
	total := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 21))
		s := newStore(t, vfs.NewMem(), func(s *store) { s.cfg.MemtableBytes = 64 << 10 })
		const keys = 400
		key := func(i int) string { return fmt.Sprintf("k%03d", i) }
		version, at, way := 0, 0, 1
		commit := func(ops ...op) {
			s.must(s.commit(false, ops...))
			version++
		}
		var pins []*Pin
		for range 60 {
			switch n := rng.IntN(14); {
			case n < 3: // deletes in order, up or down, in one commit or many, with holes
				from, count, hole := rng.IntN(keys), 20+rng.IntN(200), rng.IntN(3)*rng.IntN(40)
				step := 1 - 2*rng.IntN(2)
				if rng.IntN(2) == 0 { // goes on where the last ones ended
					from, step = at, way
				}
				at, way = from+step*count, step
				var ops []op
				for j := range count {
					i := from + step*j
					if i < 0 || i >= keys || hole > 0 && j%hole == hole-1 {
						continue
					}
					if ops = append(ops, del(key(i))); rng.IntN(50) == 0 {
						commit(ops...)
						ops = nil
					}
				}
				if len(ops) > 0 {
					commit(ops...)
				}
			case n < 6:
				var ops []op
				for range 1 + rng.IntN(60) {
					ops = append(ops, set(key(rng.IntN(keys)), []byte("v")))
				}
				commit(ops...)
			case n == 6:
				lo := rng.IntN(keys)
				commit(delRange(key(lo), key(lo+1+rng.IntN(50))))
			case n == 7:
				s.flush()
			case n == 8:
				s.seal()
			case n == 9:
				s.must(s.tree.runMerge(context.Background(), rng.IntN(2) == 0))
			case n == 10:
				pins = append(pins, s.pin(0))
			case n == 11 && len(pins) > 0:
				i := rng.IntN(len(pins))
				pins[i].Release()
				pins = append(pins[:i], pins[i+1:]...)
			default:
				s.must(s.tree.runVoids(context.Background()))
			}
			if rng.IntN(2) == 0 {
				s.must(s.tree.runVoids(context.Background()))
			}
			now := s.pin(0)
			for _, p := range append(pins[:len(pins):len(pins)], now) {
				want, _ := s.keysOf(p, false)
				got, skipped := s.keysOf(p, true)
				if got != want {
					t.Fatalf("seed %d: at version %d of %d:\n got %s\nwant %s", seed, p.Version(), version, got, want)
				}
				if skipped {
					total++
				}
			}
			now.Release()
		}
		for _, p := range pins {
			p.Release()
		}
		s.close()
	}
	if total < 1000 {
		t.Errorf("only %d walks met something hidden", total)
	}
}

// Deletes in the order of keys become one void each memtable, while they go on and
// after the flush, and nobody pays for them one by one.
func TestDeletesInOrderAreAVoid(t *testing.T) {
	for _, down := range []bool{false, true} {
		s := newStore(t, vfs.NewMem(), nil)
		const n = 3000
		for i := range n + 2 {
			s.must(s.commit(false, set(fmt.Sprintf("k%05d", i), []byte("v"))))
		}
		s.flush()
		for i := range n {
			if down {
				i = n - 1 - i
			}
			s.must(s.commit(false, del(fmt.Sprintf("k%05d", i+1))))
			s.must(s.tree.runVoids(context.Background()))
		}
		for _, flushed := range []bool{false, true} {
			p := s.pin(0)
			it := p.Iterator()
			steps := 0
			cover := p.Cover(true)
			for ok := it.First(); ok; steps++ {
				if e := it.Entry(); cover != nil && e.Version < cover.Newest(e.Key) {
					_, end := cover.Stretch()
					ok = it.SkipGE(end, cover.Newest(e.Key))
					continue
				}
				ok = it.Next()
			}
			it.Close()
			p.Release()
			if steps > 400 {
				t.Errorf("down %v, flushed %v: %d steps past %d deletes", down, flushed, steps, n)
			}
			s.flush()
		}
		s.close()
	}
}
