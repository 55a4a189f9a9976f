package policy

import (
	"testing"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/version/layout"
)

// expiring plays a store with one base run of size bytes, until it is empty. An entry of
// bytes bytes expires each time that every milliseconds have passed, the last one after
// ttl. It counts how often the run is compacted for that, and how long an entry stayed in
// it at most.
func expiring(t *testing.T, idle bool, size, bytes, every, ttl uint64) (compactions int, longest uint64) {
	s := newStore(t)
	begin, now := uint64(1e12), uint64(1e12)
	meta := func(before []entry.Expiring) layout.RunMeta {
		x := entry.NewExpiries(now, before)
		for at := begin + every; at <= begin+ttl; at += every {
			if at > now {
				x.Add(&entry.Entry{Separated: true, Handle: entry.Handle{Length: bytes}, Expires: at})
			}
		}
		return layout.RunMeta{ValueBytes: size, Entries: 1e6, Expiry: x.List()}
	}
	m := meta(nil)
	s.add(nil, layout.Base, 1, m)
	for m.Expiry != nil {
		oldest := begin + ((now-begin)/every+1)*every
		due := ExpiryDue(s.layout, State{Idle: idle}, Options{})
		if due <= now {
			t.Fatalf("due at %d, but it is %d", due, now)
		}
		if p := Decide(s.layout, State{Now: due - 1, Idle: idle}, Options{}); p.Compaction != nil {
			t.Fatalf("compacted before it is due: %+v", p.Compaction)
		}
		now = due
		p := Decide(s.layout, State{Now: now, Idle: idle}, Options{})
		if p.Compaction == nil {
			t.Fatalf("due, but not compacted: %+v", p.Compaction)
		}
		compactions++
		longest = max(longest, now-min(oldest, now))
		m = meta(m.Expiry)
		s.add([]layout.RunID{s.layout.Runs()[0].ID}, layout.Base, 1, m)
	}
	if ExpiryDue(s.layout, State{Idle: idle}, Options{}) != 0 {
		t.Error("something is due in a run where nothing expires")
	}
	return compactions, longest
}

// At rest everything leaves in time; while clients write, a run is rewritten for
// what has expired only in proportion.
func TestExpiryIsWeighed(t *testing.T) {
	const minute, day = 60_000, 24 * 3600_000
	for _, c := range []struct {
		what               string
		size, bytes, every uint64
		ttl                uint64
		idle, busy         int    // compactions at most
		longest            uint64 // a wait while clients write, at most
	}{
		{"one of a million each minute", 30 << 20, 30, minute, day, 160, 2, day + day/20},
		{"one of a billion each ten minutes", 30 << 30, 30, 10 * minute, 7 * day, 160, 8, day + day/2},
		{"all of it within a day", 1440 << 20, 1 << 20, minute, day, 160, 5, day + 20*minute},
		{"a small run", 1 << 20, 100, minute, day, 160, 160, day / 20},
		{"all of it within an hour", 60 << 20, 1 << 20, minute, 60 * minute, 60, 10, day + minute},
		{"one entry", 30 << 30, 30, 10 * minute, 10 * minute, 1, 1, day + minute},
	} {
		idle, longest := expiring(t, true, c.size, c.bytes, c.every, c.ttl)
		if idle > c.idle || longest+5000 > max(minute, c.ttl/20) {
			t.Errorf("%s, idle: %d compactions, at most %d; longest wait %d s", c.what, idle, c.idle, longest/1000)
		}
		busy, longest := expiring(t, false, c.size, c.bytes, c.every, c.ttl)
		if busy > c.busy || longest > c.longest {
			t.Errorf("%s, busy: %d compactions, at most %d; longest wait %d s, at most %d", c.what, busy, c.busy, longest/1000, c.longest/1000)
		}
	}
}

// Runs that have something due are compacted with what lies between, and down to
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
		{"the base", []uint64{10, 10, 20}, []int{2}, 2, 1},
		{"an upper run over a heavy base", []uint64{10, 10, 1000}, []int{0}, 0, 1},
		{"an upper run over a light base", []uint64{10, 10, 20}, []int{1}, 1, 2},
		{"two with one between", []uint64{10, 10, 10, 1000}, []int{0, 2}, 0, 3},
		{"a small store", []uint64{1, 1, 8}, []int{0}, 0, 3},
	} {
		s := newStore(t)
		for i, size := range c.sizes {
			m := layout.RunMeta{ValueBytes: size * mb, Entries: 1000}
			for _, d := range c.due {
				if d == i {
					m.Expiry = gone
				}
			}
			tier := layout.Upper
			if i == len(c.sizes)-1 {
				tier = layout.Base
			}
			s.add(nil, tier, uint64(len(c.sizes)-i), m)
		}
		m := newBalance(s.layout, State{Now: 1000 + expiryGraceMillis}, Options{}).planExpiry()
		switch {
		case c.count == 0 && m == nil:
		case m == nil || len(m.Runs) != c.count || m.Runs[0] != s.layout.Runs()[c.first].ID:
			t.Errorf("%s: %+v", c.what, m)
		}
		if p := Decide(s.layout, State{Now: 1000 + expiryGraceMillis, DiskSpace: mb}, Options{}); p.Compaction != nil && p.Compaction.Reason == m.Reason {
			t.Errorf("%s: compacted without disk space: %+v", c.what, p.Compaction)
		}
		if m := newBalance(s.layout, State{Now: 999 + expiryGraceMillis}, Options{}).planExpiry(); m != nil {
			t.Errorf("%s, too early: %+v", c.what, m)
		}
	}
}

// What was retained is due once it is beyond the age of its keyspace; what a number of versions
// keeps, once the keyspace keeps fewer. What was never counted is counted once all of it has aged.
func TestHistoryIsDue(t *testing.T) {
	const second, now = 1000, 1_000_000
	aged := []layout.Superseded{{Version: 50, Entries: 10, Bytes: 100, Separated: 1 << 30}}
	other := []layout.Superseded{{Keyspace: 1, Version: 50, Entries: 10, Separated: 1 << 30}}
	kept := []layout.Superseded{{Version: 50, Keep: 5, Entries: 10, Separated: 1 << 30}}
	late := []layout.Superseded{{Version: 51, Entries: 10, Separated: 1 << 30}}
	old := layout.RunMeta{MaxVersion: 50}
	for _, c := range []struct {
		what string
		run  layout.RunMeta
		o    Retention
		want uint64
	}{
		{"nothing was replaced", layout.RunMeta{Superseded: []layout.Superseded{}}, Retention{Age: time.Minute}, 0},
		{"it ages", layout.RunMeta{Superseded: aged}, Retention{Age: time.Minute}, now + 60*second + 1 + expiryGraceMillis},
		{"no age", layout.RunMeta{Superseded: aged}, Retention{}, 1 + expiryGraceMillis},
		{"another keyspace retains it", layout.RunMeta{Superseded: other}, Retention{}, now + 3600*second + 1 + expiryGraceMillis},
		{"it is among the versions that are kept", layout.RunMeta{Superseded: kept}, Retention{Versions: 5}, 0},
		{"fewer versions are kept", layout.RunMeta{Superseded: kept}, Retention{Versions: 4}, 1 + expiryGraceMillis},
		{"its time is not known yet", layout.RunMeta{Superseded: late}, Retention{Age: time.Minute}, 0},
		{"it was not counted", old, Retention{Age: time.Minute}, now + 3600*second + 1 + expiryGraceMillis},
	} {
		s := newStore(t)
		s.apply(&layout.Edit{NextKeyspace: 2, SetKeyspaces: []layout.Keyspace{{ID: 1, Name: "k", Options: layout.KeyspaceOptions{Age: time.Hour}}},
			LastVersion: 50, Clock: []layout.ClockSample{{Version: 50, UnixMilli: now}}})
		s.add(nil, layout.Base, 1, c.run)
		o := Options{Retention: c.o}
		if got := ExpiryDue(s.layout, State{Idle: true}, o); got != c.want {
			t.Errorf("%s: due at %d, want %d", c.what, got, c.want)
		}
		if c.want != 0 && Decide(s.layout, State{Idle: true, Now: c.want}, o).Compaction == nil {
			t.Errorf("%s: it is due, and nothing is planned", c.what)
		}
		if p := Decide(s.layout, State{Now: now + 1000*3600*second, Full: true}, o); (p.Compaction != nil) != (c.want != 0) {
			t.Errorf("%s, and the disk is full: %+v", c.what, p.Compaction)
		}
	}
}

// Of a run that was written before expiry was recorded only the least is known;
// and what never expires, or at the end of all times, is never due.
func TestExpiryAtTheEnds(t *testing.T) {
	for _, c := range []struct {
		meta layout.RunMeta
		want uint64
	}{
		{layout.RunMeta{}, 0},
		{layout.RunMeta{MinExpiry: 5000}, 5000 + expiryGraceMillis},
		{layout.RunMeta{MinExpiry: ^uint64(0), Expiry: []entry.Expiring{{At: ^uint64(0), Late: 1 << 60, Entries: 1}}}, ^uint64(0)},
	} {
		s := newStore(t)
		s.add(nil, layout.Base, 1, c.meta)
		if got := ExpiryDue(s.layout, State{Idle: true}, Options{}); got != c.want {
			t.Errorf("%+v: due at %d, want %d", c.meta, got, c.want)
		}
	}
	if at := MemtableExpiryDue(^uint64(0)-1, true); at != ^uint64(0) {
		t.Errorf("due at %d", at)
	}
}
