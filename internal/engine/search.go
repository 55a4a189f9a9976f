package engine

import (
	"context"
	"sync"

	"github.com/brockdb/brock/internal/lsm/emptied"
	"github.com/brockdb/brock/internal/view"
)

// searcher finds and forgets emptied ranges, one search at a time.
type searcher struct {
	views   *view.Set
	emptied *emptied.Tracker
	mu      sync.Mutex // held over a search; taken last
}

// CatchUp searches for emptied ranges if the background task is late. A committer calls it
// after its commit is published, with no lock held.
func (s *searcher) CatchUp() {
	if s.emptied.Late() {
		s.searchIf(s.emptied.Late)
	}
}

// run is the background task that searches.
func (s *searcher) run(context.Context) error {
	s.searchIf(s.behind)
	return nil
}

// behind reports whether there is anything to search.
func (s *searcher) behind() bool { return s.emptied.Behind(&s.views.Current().Known) }

// searchIf takes the lock, and searches the memtables for emptied ranges if needed still
// returns true then: another search may have ended meanwhile.
func (s *searcher) searchIf(needed func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !needed() {
		return
	}
	// Keep this order: what was counted is visible at the version, and what is visible is in
	// the View.
	counted := s.emptied.Count()
	visible := s.views.Visible()
	hold, err := s.views.Hold()
	if err != nil {
		return // closed
	}
	defer hold.Release()
	s.views.Learn(s.emptied.Search(hold.View(), &hold.View().Known, visible, counted))
}

// applied prunes after a compaction into the base.
func (s *searcher) applied(c *change) {
	if c.bottom {
		s.prune()
	}
}

// prune forgets emptied ranges in which a compaction into the base has left few entries: a
// seek walks these quickly.
func (s *searcher) prune() {
	s.mu.Lock()
	defer s.mu.Unlock()
	hold, err := s.views.Hold()
	if err != nil {
		return // closed
	}
	defer hold.Release()
	s.views.Learn(s.emptied.Prune(hold.View(), &hold.View().Known))
}
