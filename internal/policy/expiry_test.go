package policy

import (
	"testing"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/manifest"
)

// expiring is a store with one base run, of which an entry of some bytes expires
// every so many milliseconds; it counts what is rewritten for that.
func expiring(t *testing.T, size, bytes, every, until uint64) (merges int, longest uint64) {
	s := newStore(t)
	steps := func(now uint64) (list []entry.Expiring) {
		x := entry.NewExpiries(now)
		for at := now/every*every + every; at <= until; at += every {
			x.Add(&entry.Entry{Key: make([]byte, bytes), Expires: at})
		}
		return x.List()
	}
	now := uint64(1_000_000)
	s.add(nil, manifest.Base, 1, manifest.RunMeta{ValueBytes: size, Entries: 1e6, Expiry: steps(now)})
	oldest := now + every
	for now < until {
		due := ExpiryDue(s.layout)
		if due == 0 {
			break
		}
		if due <= now {
			t.Fatalf("due at %d, but it is %d", due, now)
		}
		if p := Decide(s.layout, State{Now: due - 1}, Options{}); p.Merge != nil {
			t.Fatalf("merged before it is due: %+v", p.Merge)
		}
		now = due
		p := Decide(s.layout, State{Now: now}, Options{})
		if p.Merge == nil || p.Merge.Into != manifest.Base {
			t.Fatalf("due, but not merged: %+v", p.Merge)
		}
		merges++
		longest = max(longest, now-min(oldest, now))
		oldest = now/every*every + every
		id := s.layout.Runs()[0].ID
		s.add([]manifest.RunID{id}, manifest.Base, 1, manifest.RunMeta{ValueBytes: size, Entries: 1e6, Expiry: steps(now)})
	}
	return merges, longest
}

// A run is rewritten for what has expired in proportion: soon for a fair share,
// seldom for little, but always within an hour and a bit.
func TestExpiryIsWeighed(t *testing.T) {
	const minute, day = 60_000, 24 * 3600_000
	for _, c := range []struct {
		what               string
		size, bytes, every uint64
		merges             int    // at most
		longest            uint64 // a wait, at most
	}{
		{"one of a million each minute", 30 << 20, 1000, minute, 120, 65 * minute},
		{"one of a billion each minute", 30 << 30, 1000, minute, 30, 65 * minute},
		{"a fair share each minute", 64 << 20, 1 << 20, minute, 1440, minute},
		{"a small run", 1 << 20, 100, minute, 1440, minute},
		{"a thousandth each ten minutes", 100 << 20, 100 << 10, 10 * minute, 150, 15 * minute},
	} {
		merges, longest := expiring(t, c.size, c.bytes, c.every, day)
		if merges > c.merges || longest > c.longest || merges == 0 {
			t.Errorf("%s: %d merges a day, at most %d; longest wait %d s, at most %d", c.what, merges, c.merges, longest/1000, c.longest/1000)
		}
	}
}

// Runs that have something due are merged with what lies between, and down to
// the base if that weighs little more.
func TestExpiredRuns(t *testing.T) {
	const mb = 1 << 20
	gone := []entry.Expiring{{At: 1000, Entries: 10, Bytes: 5 * mb}}
	for _, c := range []struct {
		what  string
		sizes []uint64 // newest first, the last is the base
		due   []int
		first int
		count int
	}{
		{"nothing", []uint64{10, 10, 100}, nil, 0, 0},
		{"the base", []uint64{10, 10, 100}, []int{2}, 2, 1},
		{"an upper run over a heavy base", []uint64{10, 10, 1000}, []int{0}, 0, 1},
		{"an upper run over a light base", []uint64{10, 10, 20}, []int{1}, 1, 2},
		{"two with one between", []uint64{10, 10, 10, 1000}, []int{0, 2}, 0, 3},
		{"a small store", []uint64{1, 1, 8}, []int{0}, 0, 3},
	} {
		s := newStore(t)
		for i, size := range c.sizes {
			m := manifest.RunMeta{ValueBytes: size * mb, Entries: 1000}
			for _, d := range c.due {
				if d == i {
					m.Expiry = gone
				}
			}
			tier := manifest.Upper
			if i == len(c.sizes)-1 {
				tier = manifest.Base
			}
			s.add(nil, tier, uint64(len(c.sizes)-i), m)
		}
		m := expired(s.layout.Runs(), 1000+expiryGrace)
		switch {
		case c.count == 0 && m == nil:
		case m == nil || len(m.Runs) != c.count || m.Runs[0] != s.layout.Runs()[c.first].ID ||
			(m.Into == manifest.Base) != (c.first+c.count == len(c.sizes)):
			t.Errorf("%s: %+v", c.what, m)
		}
		if m := expired(s.layout.Runs(), 999+expiryGrace); m != nil {
			t.Errorf("%s, too early: %+v", c.what, m)
		}
	}
}
