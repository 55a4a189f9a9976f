package view

import (
	"sync"
	"sync/atomic"
	"testing"
)

// A View stays while a hold of it goes from pin to pin, also beside those who look for Views that nobody
// holds: each look sees the old pin or the new one.
func TestForkHoldsTheView(t *testing.T) {
	s := newTestSet()
	put(t, s, "a", 1)
	p, err := s.Acquire(0)
	if err != nil {
		t.Fatal(err)
	}
	p.SetOrigin(7)
	put(t, s, "b", 2)
	old := replace(s)
	for range 300 { // between the slots of the two: a look takes longer
		other, err := s.Acquire(0)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Release()
	}
	first := p.Fork()
	if first.Version() != 1 || first.View() != p.View() || s.OldestVersion(2) != 1 || first.slot.origin.Load() != 7 {
		t.Errorf("the fork has version %d", first.Version())
	}
	first.Release()
	var done atomic.Bool
	var looking sync.WaitGroup
	for range 2 {
		looking.Go(func() {
			for !done.Load() {
				s.ReclaimViews()
				if s.OldestVersion(2) != 1 {
					t.Error("nobody holds the version")
					return
				}
			}
		})
	}
	for range 20_000 {
		next := p.Fork()
		p.Release()
		if p = next; old.Len() == 0 {
			t.Fatal("the memtable was released")
		}
	}
	done.Store(true)
	looking.Wait()
	p.Release()
}
