package engine

import (
	"context"
	"errors"

	"github.com/brockdb/brock/internal/view"
)

// Close ends background work and waits for it, makes the journal durable, records where the
// journal ends, and closes the manifest. Close the commit pipeline before. A file is closed
// when its last reader has released it.
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
	t.searcher.mu.Lock() // CatchUp may be searching
	defer t.searcher.mu.Unlock()
	t.throttle.end()
	if t.follower != nil {
		t.follower.Close()
	}
	if !t.cfg.ReadOnly {
		err = errors.Join(err, t.installer.end(t.scrubber.state))
	}
	err = errors.Join(err, t.log.Close())
	// Each View has a memtable. A committer that has waited may still survey the disk space.
	t.views.Install(func(next *view.View) {
		*next = view.View{Layout: next.Layout, Tables: []*view.Table{newTable(t.cfg, 0)}}
	})
	t.views.Reclaim()
	return err
}
