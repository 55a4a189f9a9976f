package tree

import (
	"context"
)

// CatchUp is called by a committer whose commit is published, with no lock held: it
// searches for what deletes have emptied if the task that does so is late.
func (t *Tree) CatchUp() {
	if t.emptied.Late() {
		t.searchIf(t.emptied.Late)
	}
}

// runSearch is the task.
func (t *Tree) runSearch(context.Context) error {
	t.searchIf(t.emptied.Behind)
	return nil
}

// searchIf searches the memtables for what deletes have emptied, if that is still
// needed once it may. The order matters: what was counted is visible, and what is
// visible is in the View.
func (t *Tree) searchIf(needed func() bool) {
	t.turns.searching.Lock()
	defer t.turns.searching.Unlock()
	if !needed() {
		return
	}
	counted := t.emptied.Count()
	visible := t.Visible()
	hold, err := t.views.Hold()
	if err != nil {
		return // closed
	}
	defer hold.Release()
	t.views.Learn(t.emptied.Search(hold.View(), visible, counted))
}

// pruneEmptied forgets the ranges of which a compaction into the base has left little.
func (t *Tree) pruneEmptied() {
	t.turns.searching.Lock()
	defer t.turns.searching.Unlock()
	hold, err := t.views.Hold()
	if err != nil {
		return // closed
	}
	defer hold.Release()
	t.views.Learn(t.emptied.Prune(hold.View(), &hold.View().Known))
}
