package tree

import (
	"context"
	"errors"

	"github.com/brockdb/brock/internal/view"
)

// Close ends background work and waits for it, makes the journal durable and
// records where it ends, and closes the manifest. The commit pipeline has been
// closed before. Files are closed when the last reader has let go of them.
func (t *Tree) Close() error {
	if !t.views.Close() {
		return nil
	}
	t.life.end() // Compact, Reclaim and others do their work on the goroutine of their caller
	err := t.cfg.Jobs.Close(context.Background())
	t.compactor.turn.Always()
	defer t.compactor.turn.Leave()
	t.collector.turn.Always()
	defer t.collector.turn.Leave()
	t.searcher.mu.Lock() // CatchUp searches; last, as an installation may be waiting for it
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
