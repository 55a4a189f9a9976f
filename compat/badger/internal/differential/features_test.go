package differential_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/brockdb/brock/compat/badger/internal/differential"
	"github.com/brockdb/brock/compat/badger/internal/differential/genuine"
	"github.com/brockdb/brock/compat/badger/internal/differential/ported"
)

// What follows are programs of one feature each: what is in a store then differs for a reason that the
// README names, or depends on time.

// newPair opens both, for programs of the seed that is in use.
func newPair(t *testing.T, config differential.Config, seed uint64) *pair {
	x := &pair{t: t, config: config, seed: seed, gen: differential.NewGenerator(seed, config.Managed)}
	x.versions = newVersionMap(config.Managed)
	x.gen.Now = uint64(time.Now().Unix())
	x.genuine = x.open(genuine.Open, t.TempDir())
	x.ported = x.open(ported.Open, t.TempDir())
	return x
}

func (x *pair) both() []differential.Store { return []differential.Store{x.genuine, x.ported} }

// featureSeeds are the seeds of a run.
func featureSeeds(t *testing.T, most uint64) (seeds []uint64) {
	if testing.Short() {
		most = min(most, 3)
	}
	most = max(most, most*uint64(*callsFlag)/1_000_000)
	for seed := range most {
		if *seedFlag == 0 || *seedFlag == seed {
			seeds = append(seeds, seed)
		}
	}
	return seeds
}

// TestSameMerges: Adds and Gets of MergeOperators, with Close and Open between.
func TestSameMerges(t *testing.T) {
	for _, seed := range featureSeeds(t, 10) {
		x := newPair(t, differential.Config{}, seed)
		random := rand.New(rand.NewPCG(seed, 2))
		for range 60 {
			key := []byte{'m', byte(random.IntN(3))}
			values := make([][]byte, random.IntN(5))
			for i := range values {
				values[i] = []byte{byte(random.Uint32()), byte(i)}
			}
			g, errG := x.genuine.Merge(key, values)
			p, errP := x.ported.Merge(key, values)
			if !bytes.Equal(g, p) || fmt.Sprint(errG) != fmt.Sprint(errP) {
				t.Fatalf("seed %d: key %x: Badger %x, %v, this module %x, %v", seed, key, g, errG, p, errP)
			}
			if random.IntN(10) == 0 {
				x.run(&differential.Op{Kind: differential.Reopen})
			}
		}
		x.closeBoth(x.genuine, x.ported)
	}
}

// TestSameSubscribes: what a Subscribe is told of batches and updates. Badger tells the pairs of a commit
// in any order.
func TestSameSubscribes(t *testing.T) {
	matches := []struct{ prefix, ignore string }{{"", ""}, {"a", ""}, {"ab", "0"}, {"a\x00b", "1"}, {"bab", "0-1"}, {"\xff", ""}}
	for _, seed := range featureSeeds(t, 20) {
		x := newPair(t, differential.Config{Managed: seed%2 == 1}, seed)
		m := matches[seed%uint64(len(matches))]
		var ends []func() []string
		for _, s := range x.both() {
			ends = append(ends, s.Watch([]byte(m.prefix), m.ignore))
		}
		for range 50 {
			op := x.gen.Batch()
			if op.Fail { // both may have written a part
				continue
			}
			// Of two writes of one key in a commit only the last one is told here.
			var writes []differential.Write
			for _, w := range op.Writes {
				if !slices.ContainsFunc(writes, func(o differential.Write) bool { return bytes.Equal(o.Key, w.Key) }) {
					writes = append(writes, w)
				}
			}
			op.Writes = writes
			x.run(op)
		}
		g, p := ends[0](), ends[1]()
		slices.Sort(g)
		slices.Sort(p)
		if !slices.Equal(g, p) {
			for i := range g {
				if i >= len(p) || g[i] != p[i] {
					t.Fatalf("seed %d: %d and %d pairs; the first that differs: %s, %s", seed, len(g), len(p), g[i], p[min(i, len(p)-1)])
				}
			}
			t.Fatalf("seed %d: %d and %d pairs", seed, len(g), len(p))
		}
		x.closeBoth(x.genuine, x.ported)
	}
}

// TestSameExpiry: pairs that expire while the program runs, in reads, backups and streams.
func TestSameExpiry(t *testing.T) {
	for _, config := range []differential.Config{{}, {Managed: true}, {ValueThreshold: 16}} {
		t.Run(fmt.Sprintf("managed_%v_threshold_%d", config.Managed, config.ValueThreshold), func(t *testing.T) {
			t.Parallel()
			for seed := *seedFlag; !sameExpiry(t, config, seed); seed++ { // the machine was too slow
				if seed > *seedFlag+5 {
					t.Fatal("the clock was never right")
				}
			}
		})
	}
}

// sameExpiry returns false if a pair has expired during a comparison.
func sameExpiry(t *testing.T, config differential.Config, seed uint64) bool {
	x := newPair(t, config, seed)
	defer func() { x.closeBoth(x.genuine, x.ported) }()
	start := x.gen.Now
	for i := range 60 {
		op := x.gen.Batch()
		for j := range op.Writes {
			if w := &op.Writes[j]; !w.Delete && (i+j)%3 > 0 {
				w.Expires = start + 3*uint64((i+j)%3) // 3 or 6
			}
		}
		if op.Fail {
			continue
		}
		x.run(op)
	}
	for _, at := range []uint64{1, 4, 7} {
		for uint64(time.Now().Unix()) < start+at {
			time.Sleep(10 * time.Millisecond)
		}
		x.run(&differential.Op{Kind: differential.Begin, Version: 1<<64 - 1})
		for _, all := range []bool{false, true} {
			for _, reverse := range []bool{false, true} {
				x.run(&differential.Op{Kind: differential.Iterate, AllVersions: all, Reverse: reverse,
					Moves: []differential.Move{{Rewind: true, Steps: 1 << 30}}})
			}
		}
		x.run(&differential.Op{Kind: differential.Discard})
		x.exchange([2]backup{x.backup(x.genuine, 0), x.backup(x.ported, 0)})
		if uint64(time.Now().Unix()) >= start+at+2 {
			return false
		}
	}
	return true
}
