package tree

import (
	"context"
	"sync"

	"github.com/brockdb/brock/internal/emptied"
	"github.com/brockdb/brock/internal/view"
)

// searcher has what deletes have emptied found and forgotten: one search at a time.
type searcher struct {
	views   *view.Set
	emptied *emptied.Tracker
	mu      sync.Mutex // held over a search; taken last
}

// catchUp is called by a committer whose commit is published, with no lock held: it
// searches for what deletes have emptied if the task that does so is late.
func (s *searcher) catchUp() {
	if s.emptied.Late() {
		s.searchIf(s.emptied.Late)
	}
}

// run is the background task.
func (s *searcher) run(context.Context) error {
	s.searchIf(s.behind)
	return nil
}

// behind reports whether there is anything to search.
func (s *searcher) behind() bool { return s.emptied.Behind(&s.views.Current().Known) }

// searchIf searches the memtables for what deletes have emptied, if that is still
// needed once it may. The order matters: what was counted is visible, and what is
// visible is in the View.
func (s *searcher) searchIf(needed func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !needed() {
		return
	}
	// Count, version, View: each has all that the one before it has.
	counted := s.emptied.Count()
	visible := s.views.Visible()
	hold, err := s.views.Hold()
	if err != nil {
		return // closed
	}
	defer hold.Release()
	s.views.Learn(s.emptied.Search(hold.View(), &hold.View().Known, visible, counted))
}

// prune forgets the ranges of which a compaction into the base has left little.
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
