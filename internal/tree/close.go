package tree

import (
	"context"
	"errors"

	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/view"
)

// Close ends background work and waits for it, makes the journal durable and
// records where it ends, and closes the manifest. The commit pipeline has been
// closed before. Files are closed when the last reader has let go of them.
func (t *Tree) Close() error {
	if !t.views.Close() {
		return nil
	}
	t.life.cancel(errs.ErrClosed)
	// A transaction that writes files ends first; a later one sees that the store is
	// closed.
	t.spills.mu.Lock()
	t.views.Wake()
	t.spills.mu.Unlock()
	err := t.cfg.Jobs.Close(context.Background())
	t.compactor.mu.Lock() // Compact, Reclaim and CatchUp do their work on the goroutine of their caller
	defer t.compactor.mu.Unlock()
	t.collector.mu.Lock()
	defer t.collector.mu.Unlock()
	t.searcher.mu.Lock() // last: an installation may be waiting for it
	defer t.searcher.mu.Unlock()
	t.throttle.end()
	if t.follower != nil {
		t.follower.Close()
	}
	if !t.cfg.ReadOnly {
		err = errors.Join(err, t.installer.end(t.scrubber.state))
	}
	err = errors.Join(err, t.log.Close())
	// With a memtable, as every View: a committer who has waited may look at disk space once more.
	t.views.Install(func(next *view.View) {
		*next = view.View{Layout: next.Layout, Tables: []*view.Table{newTable(t.cfg, 0)}}
	})
	t.views.Reclaim()
	t.files.RemoveSpares(true)
	return err
}
