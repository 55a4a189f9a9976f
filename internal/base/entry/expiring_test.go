package entry

import (
	"math/rand/v2"
	"testing"
)

// promise is by when an entry is to have left the files of a store at rest, by
// the time to live that it had; policy adds the first of it to steps.
func promise(ttl uint64) uint64 { return max(60_000, ttl/20) }

const grace = 20_000

// However often a run is compacted with others, every entry that expires is in one
// step that ends when it has expired or later, and whose Late ends before what
// was promised; and yet Late does not shrink with the time that is left.
func TestExpiries(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		begin := 1_700_000_000_000 + rng.Uint64N(1e9)
		now := begin
		type item struct{ born, expires uint64 }
		var items []item
		var runs [][]Expiring
		for range 1 + rng.IntN(12) {
			for range rng.IntN(4) { // flushed since
				y := NewExpiries(now)
				most := 24 + rng.IntN(30)
				for range rng.IntN(200) {
					i := item{now, now + 1 + rng.Uint64()>>most}
					items = append(items, i)
					y.Add(&Entry{Key: []byte("k"), Expires: i.expires})
				}
				runs = append(runs, y.List())
			}
			now += rng.Uint64() >> (24 + rng.IntN(30))
			x := NewExpiries(now, runs...)
			rng.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
			live := items[:0]
			var want, sum Expiring
			for _, i := range items {
				if i.expires <= now {
					continue
				}
				live = append(live, i)
				e := Entry{Key: make([]byte, 1+rng.IntN(30)), Value: make([]byte, rng.IntN(30)), Expires: i.expires}
				want.Entries, want.Bytes = want.Entries+1, want.Bytes+uint64(len(e.Key)+len(e.Value))
				if rng.IntN(2) == 0 {
					e.Separated, e.Handle.Length = true, 1000
					want.Bytes += 1000
				}
				x.Add(&e)
				ends, by := x.last.step.At+max(grace, x.last.step.Late), i.expires+promise(i.expires-i.born)
				if x.last.step.At < i.expires || ends+5000 > by {
					t.Fatalf("seed %d: %+v of what expires at %d and lived for %d: %d ms too late", seed, *x.last.step, i.expires, i.expires-i.born, int64(ends-by))
				}
				x.Add(&Entry{Key: e.Key}) // expires never
			}
			items = live
			list := x.List()
			for i, s := range list {
				if i > 0 && s.At <= list[i-1].At || s.Entries == 0 {
					t.Fatalf("seed %d: step %+v after %+v", seed, s, list[i-1])
				}
				sum.Entries, sum.Bytes = sum.Entries+s.Entries, sum.Bytes+s.Bytes
			}
			if sum != want || len(list) > 1500 {
				t.Fatalf("seed %d: %d steps count %+v, want %+v", seed, len(list), sum, want)
			}
			runs = [][]Expiring{list}
		}
	}
}

// What was said of an entry when it had long to live is not forgotten when it
// has not: a run is not compacted for each of its last minutes.
func TestLateIsHandedOn(t *testing.T) {
	const day = 86_400_000
	x := NewExpiries(1e12)
	for i := range uint64(1000) {
		x.Add(&Entry{Key: []byte("k"), Expires: 1e12 + 30*day + i*60_000})
	}
	first := x.List()
	if n := len(first); n > 4 || first[0].Late != 30*day/lateShare {
		t.Fatalf("%d steps, the first is %+v", n, first[0])
	}
	y := NewExpiries(1e12+30*day-1000, first)
	for i := range uint64(1000) {
		y.Add(&Entry{Key: []byte("k"), Expires: 1e12 + 30*day + i*60_000})
	}
	for i, s := range y.List() {
		if s != first[i] {
			t.Errorf("step %d is %+v, was %+v", i, s, first[i])
		}
	}
}

// The end of all times is a time.
func TestExpiriesAtTheEnd(t *testing.T) {
	for _, expires := range []uint64{1, leastStep, 1 << 63, ^uint64(0) - 1, ^uint64(0)} {
		for _, now := range []uint64{0, 1e12, ^uint64(0)} {
			x := NewExpiries(now)
			x.Add(&Entry{Key: []byte("k"), Expires: expires})
			for range 2 {
				list := x.List()
				if len(list) != 1 || list[0].At < expires {
					t.Errorf("%d, by %d: %+v", expires, now, list)
				}
				x = NewExpiries(now, list)
				x.Add(&Entry{Key: []byte("k"), Expires: expires})
			}
		}
	}
}

// What it takes to count an entry, of those that expire at any time of a day: in
// a flush, and in a compaction of seven runs.
func BenchmarkExpiries(b *testing.B) {
	const day = 86_400_000
	rng := rand.New(rand.NewPCG(1, 2))
	times := make([]uint64, 1<<16)
	for i := range times {
		times[i] = 1e12 + 1 + rng.Uint64N(day)
	}
	fill := func(b *testing.B, n int, before ...[]Expiring) *Expiries {
		x := NewExpiries(1e12, before...)
		e := Entry{Key: []byte("key")}
		for i := range n {
			e.Expires = times[i%len(times)]
			x.Add(&e)
		}
		return x
	}
	list := fill(b, len(times)).List()
	b.Run("flush", func(b *testing.B) { fill(b, b.N) })
	b.Run("compaction", func(b *testing.B) { fill(b, b.N, list, list, list, list, list, list, list) })
	b.Run("never", func(b *testing.B) {
		x, e := NewExpiries(1e12), Entry{}
		for range b.N {
			x.Add(&e)
		}
	})
}
