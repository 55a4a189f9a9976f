package view

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/version/layout"
)

// newTestSet returns a Set whose View has one table.
func newTestSet() *Set {
	s := NewSet(time.Now, nil, layout.New())
	s.Install(func(next *View) {
		*next = View{Layout: layout.New(), Tables: []*Table{newTestTable()}}
	})
	return s
}

// countReaders counts the Pins that hold a version.
func countReaders(s *Set) int {
	n, _, _, _ := s.readers.oldestActive()
	return n
}

func newTestTable() *Table { return NewTable(0, 1<<16, 0) }

// put adds an entry and publishes it.
func put(tb testing.TB, s *Set, key string, version entry.Version) {
	tb.Helper()
	e := entry.Entry{Key: []byte(key), Value: []byte("value"), Version: version, Kind: entry.Set}
	if err := s.Current().Active().Add(&e); err != nil {
		tb.Fatal(err)
	}
	s.Publish(version)
}

// replace installs a View with another table, and returns the table that went.
func replace(s *Set) (old *Table) {
	s.Install(func(next *View) {
		old = next.Tables[0]
		next.Tables[0] = newTestTable()
	})
	return old
}

// While the commit leader looks at a View, nothing of it is released.
func TestLeaderHoldsTheViewItReads(t *testing.T) {
	s := newTestSet()
	put(t, s, "a", 1)
	leader := s.NewLeader().pin
	leader.holdView()
	old := replace(s)
	s.ReclaimViews()
	var e entry.Entry
	if _, found, err := leader.view.FindKey([]byte("a"), checksum.HashKey(0, []byte("a")), 0, entry.MaxVersion, &e); !found || err != nil {
		t.Fatalf("the memtable that the leader reads was released: %v", err)
	}
	if n := countReaders(s); n != 0 {
		t.Errorf("the leader counts as %d readers of a version", n)
	}
	leader.releaseView()
	s.ReclaimViews()
	if old.Len() != 0 {
		t.Error("the memtable was not released after the leader had left")
	}
}

// A part of a View holds what it names, and nothing else of the View.
func TestNarrowHoldsOnlyItsPart(t *testing.T) {
	s := newTestSet()
	put(t, s, "a", 1)
	first := s.Current().Tables[0]
	s.Install(func(next *View) { next.Tables = append([]*Table{newTestTable()}, next.Tables...) })
	put(t, s, "b", 2)
	second := s.Current().Tables[0]
	hold, err := s.Hold()
	if err != nil {
		t.Fatal(err)
	}
	_, release := hold.HoldPart(func(part *View) { part.Tables = part.Tables[1:] })
	s.Install(func(next *View) { next.Tables = []*Table{newTestTable()} })
	s.ReclaimViews()
	if first.Len() == 0 || second.Len() != 0 {
		t.Errorf("the part has %d entries, the rest %d", first.Len(), second.Len())
	}
	release()
	if first.Len() != 0 {
		t.Error("the part was not released")
	}
}

// A retired resource is told so when its last holder lets go of it, once.
func TestRetiredIsToldAtTheEnd(t *testing.T) {
	s := newTestSet()
	var told []bool
	r := &Run{ID: 1, shared: shared{release: func(retired bool) { told = append(told, retired) }}}
	s.Install(func(next *View) { next.Runs = []*Run{r} })
	pin, err := s.Acquire(0)
	if err != nil {
		t.Fatal(err)
	}
	r.Retire()
	s.Install(func(next *View) { next.Runs = nil })
	s.ReclaimViews()
	if len(told) > 0 {
		t.Fatal("released while a reader holds it")
	}
	pin.Release()
	s.ReclaimViews()
	if len(told) != 1 || !told[0] {
		t.Errorf("told %v", told)
	}
}

// What a leaked Pin held is released once the collector has found it.
func TestLeakedPinIsFound(t *testing.T) {
	s := newTestSet()
	put(t, s, "a", 1)
	leaked, err := s.Acquire(0)
	if err != nil {
		t.Fatal(err)
	}
	old := replace(s)
	s.ReclaimViews()
	if old.Len() == 0 {
		t.Fatal("released while the pin was held")
	}
	runtime.KeepAlive(leaked) // and no longer
	for countReaders(s) > 0 { // until the collector has found it
		runtime.GC()
		runtime.Gosched()
	}
	s.ReclaimViews()
	if old.Len() != 0 {
		t.Error("the memtable is still held")
	}
}

// A floor that rises is seen by every reader that comes later.
func TestFloors(t *testing.T) {
	s := newTestSet()
	put(t, s, "a", 5)
	with, err := layout.New().Apply(&layout.Edit{
		SetKeyspaces: []layout.Keyspace{{ID: 2, Name: "two"}}, KeyspaceFloors: []layout.KeyspaceFloor{{ID: 2, Version: 4}}, LastVersion: 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Floors.FollowLayout(with)
	before, _ := s.Floors.all()
	s.Floors.Raise(layout.KeyspaceFloor{ID: entry.DefaultKeyspace, Version: 3}, layout.KeyspaceFloor{ID: 3, Version: 5}) // there is no keyspace 3
	if now, _ := s.Floors.all(); before[entry.DefaultKeyspace] != 0 || now[entry.DefaultKeyspace] != 3 {
		t.Error("what a reader has of the floors has changed")
	}
	if least, most := s.Floors.LowestFloor(), s.Floors.highestFloor(); least != 3 || most != 4 {
		t.Errorf("floors from %d to %d", least, most)
	}
	if _, err := s.Acquire(2); err == nil {
		t.Error("a version below all floors can be read")
	}
	p, err := s.Acquire(3)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	if floor := p.FloorOf(entry.DefaultKeyspace); floor != 3 {
		t.Errorf("the floor is %d", floor)
	}
	s.Floors.FollowLayout(with)
	if least, most := s.Floors.LowestFloor(), s.Floors.highestFloor(); least != 3 || most != 4 {
		t.Errorf("floors from %d to %d after those of the layout were read again", least, most)
	}
	for id := range entry.KeyspaceID(2) {
		before, _ = s.Floors.all()
		s.Floors.AddKeyspace(layout.KeyspaceFloor{ID: 7 + id, Version: entry.Version(9 - 7*id)})
		if _, found := before[7+id]; found || s.Floors.Of(7+id) != entry.Version(9-7*id) || s.Floors.Of(2) != 4 {
			t.Errorf("keyspace %d was added to what a reader has: %v; its floor is %d", 7+id, found, s.Floors.Of(7+id))
		}
	}
	if least, most := s.Floors.LowestFloor(), s.Floors.highestFloor(); least != 2 || most != 9 {
		t.Errorf("floors from %d to %d after keyspaces were added", least, most)
	}
	s.Floors.FollowLayout(layout.New())
	if most := s.Floors.highestFloor(); most != 3 {
		t.Errorf("the highest floor is %d after its keyspace was dropped", most)
	}
}

// A version that Acquire gives can be read, though floors rise at the same moment.
func TestFloorsRiseBesideAcquire(t *testing.T) {
	s := newTestSet()
	const versions = 20_000
	put(t, s, "a", versions)
	risen := make(chan struct{})
	go func() {
		defer close(risen)
		for v := entry.Version(1); v <= versions; v++ {
			s.Floors.Raise(layout.KeyspaceFloor{ID: entry.DefaultKeyspace, Version: v})
		}
	}()
	acquired := 0
	for at := entry.Version(1); at < versions; {
		p, err := s.Acquire(at)
		if err != nil {
			at = s.Floors.LowestFloor() // so that the next try meets the next rise
			continue
		}
		acquired++
		if floor := p.FloorOf(entry.DefaultKeyspace); floor > at {
			t.Fatalf("acquired version %d, and its floor is %d", at, floor)
		}
		p.Release()
	}
	<-risen
	t.Logf("%d versions acquired", acquired)
}

// There are as many slots as readers at a time, not as many as there ever were, and
// those of the others go while readers come, read and leave.
func TestSlotsGoWithTheirReaders(t *testing.T) {
	s := newTestSet()
	put(t, s, "a", 1)
	slots := func() int {
		s.readers.mu.Lock()
		defer s.readers.mu.Unlock()
		for i, slot := range s.readers.slots {
			if slot.index != i {
				t.Fatalf("slot %d says that it is number %d", i, slot.index)
			}
		}
		return cap(s.readers.slots)
	}
	const many, workers = 10_000, 4
	pins := make([]*Pin, many)
	acquire := func() *Pin {
		p, err := s.Acquire(0)
		if err != nil {
			t.Error(err)
		}
		return p
	}
	for i := range pins {
		pins[i] = acquire()
	}
	long, _ := s.Acquire(0)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range 5000 {
				p := acquire()
				if _, found, err := p.Newest([]byte("a"), checksum.HashKey(0, []byte("a")), 0); !found || err != nil {
					t.Errorf("a reader finds nothing: %v", err)
					return
				}
				p.Release()
			}
		})
	}
	for _, p := range pins {
		p.Release()
	}
	clear(pins)
	for slots() > many/10 && !t.Failed() {
		m, e := newTestTable(), entry.Entry{Key: []byte("a"), Version: 1, Kind: entry.Set}
		if err := m.Add(&e); err != nil {
			t.Fatal(err)
		}
		s.Install(func(next *View) { next.Tables[0] = m })
		s.ReclaimViews() // what the readers may be looking at, if a slot is missed
		runtime.GC()
	}
	wg.Wait()
	if n := countReaders(s); n != 1 {
		t.Errorf("%d readers, want 1", n)
	}
	if oldest := s.OldestVersion(5); oldest != long.Version() {
		t.Errorf("the oldest reader is at %d, want %d", oldest, long.Version())
	}
	long.Release()
}
