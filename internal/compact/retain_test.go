package compact

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/entry"
)

func TestRetention(t *testing.T) {
	set := func(v entry.Version) entry.Entry { return entry.Entry{Version: v, Kind: entry.Set} }
	del := func(v entry.Version) entry.Entry { return entry.Entry{Version: v, Kind: entry.Delete} }
	old := func(v entry.Version) entry.Entry { return entry.Entry{Version: v, Kind: entry.Set, Expires: 50} }
	latest := func(v entry.Version) entry.Entry { return entry.Entry{Version: v, Kind: entry.SetLatest} }
	at := Rules{Watermark: 10, Checked: 10, Now: 100}
	bottom := Rules{Watermark: 10, Checked: 10, Now: 100, Bottom: true}
	three := Rules{Watermark: 10, Checked: 10, Now: 100, Versions: 3}
	for _, c := range []struct {
		name     string
		rules    Rules
		versions []entry.Entry
		want     []verdict
	}{
		{"the newest visible stays", at, []entry.Entry{set(9), set(8)}, []verdict{keep, drop}},
		{"what readers may see stays", at, []entry.Entry{set(12), set(11), set(10), set(9)}, []verdict{keep, keep, keep, drop}},
		{"a delete hides what lies below", at, []entry.Entry{del(9), set(8)}, []verdict{keep, drop}},
		{"a delete at the bottom vanishes", bottom, []entry.Entry{del(9), set(8)}, []verdict{vanish, drop}},
		{"a delete that a reader may precede stays", bottom, []entry.Entry{del(11), set(8)}, []verdict{keep, keep}},
		{"an expired value becomes a delete", at, []entry.Entry{old(9), set(8)}, []verdict{bury, drop}},
		{"an expired value at the bottom vanishes", bottom, []entry.Entry{old(9), set(8)}, []verdict{vanish, drop}},
		{"history is kept by count", three, []entry.Entry{set(9), set(8), set(7), set(6)}, []verdict{keep, keep, keep, drop}},
		{"newer versions count", three, []entry.Entry{set(12), set(11), set(9), set(8)}, []verdict{keep, keep, keep, drop}},
		{"set-latest ends history", three, []entry.Entry{latest(9), set(8)}, []verdict{keep, drop}},
		{"set-latest above the watermark does not", three, []entry.Entry{latest(11), set(8)}, []verdict{keep, keep}},
		{"a delete ends history", three, []entry.Entry{set(9), del(8), set(7)}, []verdict{keep, keep, drop}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRetention(c.rules)
			// An entry of another key first: state must not leak.
			r.judge(&entry.Entry{Key: []byte("a"), Version: 1, Kind: entry.Set})
			var got []verdict
			for _, e := range c.versions {
				e.Key = []byte("k")
				got = append(got, r.judge(&e))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// visibleAt is what a reader at version v finds among versions, newest first.
func visibleAt(versions []entry.Entry, v entry.Version, now uint64) string {
	for _, e := range versions {
		if e.Version <= v {
			if !e.Live(now) {
				return "nothing"
			}
			return fmt.Sprint("value of ", e.Version)
		}
	}
	return "nothing"
}

// The invariant of retention, for random histories: no read at or above the
// watermark can tell that anything was dropped, whatever lies below.
func TestRetentionHidesNothing(t *testing.T) {
	for seed := range uint64(20000) {
		rng := rand.New(rand.NewPCG(seed, 7))
		rules := Rules{Watermark: entry.Version(rng.IntN(14)), Now: 100, Bottom: rng.IntN(2) == 0, Versions: rng.IntN(4)}
		var all, kept []entry.Entry
		for v := entry.Version(12); v > 0; v-- {
			if rng.IntN(2) == 0 {
				continue
			}
			e := entry.Entry{Key: []byte("k"), Version: v, Kind: entry.Kind(1 + rng.IntN(3))}
			if rng.IntN(3) == 0 {
				e.Expires = uint64(50 + rng.IntN(100))
			}
			all = append(all, e)
		}
		below := entry.Entry{Key: []byte("k"), Version: 0, Kind: entry.Set} // in an older run
		r := newRetention(rules)
		for _, e := range all {
			switch r.judge(&e) {
			case keep:
				kept = append(kept, e)
			case bury:
				kept = append(kept, entry.Entry{Key: e.Key, Version: e.Version, Kind: entry.Delete})
			}
		}
		if !rules.Bottom {
			all, kept = append(all, below), append(kept, below)
		}
		for v := rules.Watermark; v < 15; v++ {
			if got, want := visibleAt(kept, v, rules.Now), visibleAt(all, v, rules.Now); got != want {
				t.Fatalf("seed %d, %+v: a read at %d finds %s, before it found %s", seed, rules, v, got, want)
			}
		}
	}
}
