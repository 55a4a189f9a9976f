package compact

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/version/layout"
)

func TestRetention(t *testing.T) {
	set := func(v entry.Version) entry.Entry { return entry.Entry{Version: v, Kind: entry.Set} }
	del := func(v entry.Version) entry.Entry { return entry.Entry{Version: v, Kind: entry.Delete} }
	old := func(v entry.Version) entry.Entry { return entry.Entry{Version: v, Kind: entry.Set, Expires: 50} }
	latest := func(v entry.Version) entry.Entry { return entry.Entry{Version: v, Kind: entry.SetLatest} }
	at := Rules{History: History{Watermark: 10}, Checked: 10, Now: 100}
	bottom := Rules{History: History{Watermark: 10}, Checked: 10, Now: 100, Bottom: true}
	three := Rules{History: History{Watermark: 10, Versions: 3}, Checked: 10, Now: 100}
	for _, c := range []struct {
		name     string
		rules    Rules
		versions []entry.Entry
		want     []verdict
	}{
		{"the newest visible stays", at, []entry.Entry{set(9), set(8)}, []verdict{keep, drop}},
		{"what readers may see stays", at, []entry.Entry{set(12), set(11), set(10), set(9)}, []verdict{keep, keep, keep, drop}},
		{"a delete hides what lies below", at, []entry.Entry{del(9), set(8)}, []verdict{keep, drop}},
		{"a delete at the bottom vanishes", bottom, []entry.Entry{del(9), set(8)}, []verdict{drop, drop}},
		{"a delete that a reader may precede stays", bottom, []entry.Entry{del(11), set(8)}, []verdict{keep, keep}},
		{"an expired value becomes a delete", at, []entry.Entry{old(9), set(8)}, []verdict{bury, drop}},
		{"an expired value at the bottom vanishes", bottom, []entry.Entry{old(9), set(8)}, []verdict{drop, drop}},
		{"an expired value that a reader may precede becomes a delete", bottom, []entry.Entry{old(11), set(8)}, []verdict{bury, keep}},
		{"an expired value ends no history that a reader may see", three, []entry.Entry{old(12), old(11), set(8), set(7)}, []verdict{bury, bury, keep, drop}},
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

// Each keyspace is judged by its own rules, and of a dropped one nothing stays.
func TestRetentionOfKeyspaces(t *testing.T) {
	rules := Rules{History: History{Watermark: 10, Versions: 1}, Now: 100, Bottom: true,
		Keyspaces: map[entry.KeyspaceID]History{1: {Watermark: 5, Versions: 1}, 300: {Watermark: 10, Versions: 2}},
		Dropped:   func(id entry.KeyspaceID) bool { return id == 2 || id == 301 }}
	r := newRetention(rules)
	for _, c := range []struct {
		id   entry.KeyspaceID
		want []verdict // of versions 12, 9, 6, 4 and 2
	}{
		{0, []verdict{keep, keep, drop, drop, drop}},
		{1, []verdict{keep, keep, keep, keep, drop}},
		{2, []verdict{drop, drop, drop, drop, drop}},
		{3, []verdict{keep, keep, drop, drop, drop}},
		{300, []verdict{keep, keep, drop, drop, drop}},
		{301, []verdict{drop, drop, drop, drop, drop}},
	} {
		for _, key := range []string{"a", "b"} {
			var got []verdict
			for _, v := range []entry.Version{12, 9, 6, 4, 2} {
				got = append(got, r.judge(&entry.Entry{Key: append(entry.AppendKeyspace(nil, c.id), key...), Version: v, Kind: entry.Set}))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("keyspace %d: %v, want %v", c.id, got, c.want)
			}
		}
	}
}

// visibleAt is what a reader at version v finds among versions, newest first, and
// range deletes.
func visibleAt(versions []entry.Entry, deletes []rangedel.Delete, v entry.Version, now uint64) string {
	deleted := entry.Version(0)
	for _, d := range deletes {
		if d.Version <= v && string(d.Lo) <= "k" && "k" < string(d.Hi) {
			deleted = max(deleted, d.Version)
		}
	}
	for _, e := range versions {
		if e.Version <= v {
			if !e.Live(now) || e.Version < deleted {
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
		rules := Rules{History: History{Watermark: entry.Version(rng.IntN(14)), Versions: rng.IntN(4)}, Now: 100, Bottom: rng.IntN(2) == 0}
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
		var set *rangedel.Set
		for range rng.IntN(5) * rng.IntN(2) {
			lo := rng.IntN(3)
			set = set.With(rangedel.Delete{
				Lo: []byte{'i' + byte(lo)}, Hi: []byte{'j' + byte(lo) + byte(rng.IntN(2))}, Version: entry.Version(1 + rng.IntN(13))})
		}
		rules.RangeDeletes = sources(set)
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
		deletes, left := set.All(), written(t, rules)
		if !rules.Bottom {
			all, kept = append(all, below), append(kept, below)
		}
		for v := rules.Watermark; v < 15; v++ {
			if got, want := visibleAt(kept, left, v, rules.Now), visibleAt(all, deletes, v, rules.Now); got != want {
				t.Fatalf("seed %d, %+v, range deletes %v: a read at %d finds %s, before it found %s", seed, rules, deletes, v, got, want)
			}
		}
	}
}

// What a compaction counts as superseded is what later ones drop: nothing before it is said to be
// dead, or a store at rest would be compacted again and again; and all of it in the end.
func TestSupersededIsWhatLaterGoes(t *testing.T) {
	for seed := range uint64(20000) {
		rng := rand.New(rand.NewPCG(seed, 9))
		at := entry.Version(rng.IntN(14))
		rules := Rules{History: History{Watermark: at, Versions: rng.IntN(4)}, Checked: at, Now: 100, Bottom: rng.IntN(2) == 0}
		var set *rangedel.Set
		for range rng.IntN(3) {
			set = set.With(rangedel.Delete{Lo: []byte("j"), Hi: []byte("l"), Version: entry.Version(1 + rng.IntN(13))})
		}
		rules.RangeDeletes = sources(set)
		r, account := newRetention(rules), layout.Account{}
		var stay []entry.Entry
		for v := entry.Version(12); v > 0; v-- {
			e := entry.Entry{Key: []byte("k"), Version: v, Kind: entry.Kind(1 + rng.IntN(3))}
			if rng.IntN(2) == 0 && r.judge(&e) == keep {
				r.countSuperseded(&account, &e)
				stay = append(stay, e)
			}
		}
		rules.RangeDeletes = sources(rangedel.New(written(t, rules)...))
		for later := at; later <= entry.MaxVersion; later++ {
			if later == 16 {
				later = entry.MaxVersion
			}
			rules.Watermark, rules.Checked = later, later
			r := newRetention(rules)
			gone, dead := 0, 0
			for _, e := range stay {
				if r.judge(&e) != keep {
					gone++
				}
			}
			for _, s := range account.List() {
				if s.Keep == 0 && s.Version <= later {
					dead += int(s.Entries)
				}
			}
			if dead > gone || later > 15 && dead != gone {
				t.Fatalf("seed %d, %+v of %v, range deletes %v: with readers from %d on %d entries go, %d are said to: %+v", seed, rules, stay, set.All(), later, gone, dead, account.List())
			}
		}
	}
}

// A range delete drops what a delete of the key in its place would.
func TestRangeDeletesDropAsDeletesDo(t *testing.T) {
	for seed := range uint64(20000) {
		rng := rand.New(rand.NewPCG(seed, 8))
		rules := Rules{History: History{Watermark: entry.Version(rng.IntN(14)), Versions: rng.IntN(4)}, Now: 100, Bottom: rng.IntN(2) == 0}
		rules.Checked = entry.Version(rng.IntN(int(rules.Watermark) + 1))
		point, ranged := newRetention(rules), rules
		var set *rangedel.Set
		var entries []entry.Entry
		lastRanged := false // one of several in a row counts
		for v := entry.Version(12); v > 0; v-- {
			e := entry.Entry{Key: []byte("k"), Version: v, Kind: entry.Kind(1 + rng.IntN(3))}
			switch rng.IntN(4) {
			case 0, 1:
				entries, lastRanged = append(entries, e), false
			case 2:
				if e.Kind = entry.Delete; !lastRanged {
					set = set.With(rangedel.Delete{Lo: []byte("a"), Hi: []byte("z"), Version: v})
					entries, lastRanged = append(entries, e), true
				}
			}
		}
		ranged.RangeDeletes = sources(set)
		r := newRetention(ranged)
		for _, e := range entries {
			want := point.judge(&e)
			if set.Newest(e.Key, e.Version) == e.Version {
				continue
			}
			if got := r.judge(&e); got != want {
				t.Fatalf("seed %d: version %d of %v with range deletes %v: %v, with deletes %v", seed, e.Version, entries, set.All(), got, want)
			}
		}
		// A commit that is checked against what came after Checked finds the newest.
		newest := set.MaxVersion()
		got := rangedel.New(written(t, ranged)...).MaxVersion()
		if (newest > rules.Checked || !rules.Bottom) && got != newest || newest <= rules.Checked && rules.Bottom && got != 0 {
			t.Fatalf("seed %d: of range deletes %v, %d is the newest kept by %+v", seed, set.All(), got, rules)
		}
	}
}

// sources is a set, if there is one.
func sources(set *rangedel.Set) []rangedel.Source {
	if set == nil {
		return nil
	}
	return []rangedel.Source{set}
}

// collected is a rangeDeleteWriter that keeps what it gets.
type collected []rangedel.Delete

func (c *collected) AddRangeDelete(d rangedel.Delete) error {
	*c = append(*c, rangedel.Delete{Lo: bytes.Clone(d.Lo), Hi: bytes.Clone(d.Hi), Version: d.Version})
	return nil
}

func (c *collected) AddHistory(list []rangedel.Delete) error {
	for _, d := range list {
		_ = c.AddRangeDelete(d)
	}
	return nil
}

func (c *collected) AddNewest(rangedel.Delete) error { return nil }

// written are the range deletes that a run has after a compaction by rules.
func written(t *testing.T, rules Rules) []rangedel.Delete {
	t.Helper()
	var c collected
	if err := rules.writeRangeDeletes(&c, new(layout.Account)); err != nil {
		t.Fatal(err)
	}
	return c
}
