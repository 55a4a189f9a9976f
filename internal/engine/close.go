package engine

import (
	"context"
	"errors"

	"github.com/brockdb/brock/internal/view"
)

// Close ends background work and waits for it, makes the journal durable, records where the
// journal ends, and closes the manifest. Close the commit pipeline before. A file is closed
// when its last reader has released it.
func (e *Engine) Close() error {
	// From here on nobody gets a pin, so no new work begins while this waits for the old.
	if !e.views.Close() {
		return nil
	}
	e.lifetime.endWork() // Compact, Reclaim and others do their work on the goroutine of their caller
	e.cfg.Jobs.Close()
	err := e.Work.awaitWork(context.Background()) // no context ends this wait
	e.Commits.throttle.endStall()
	if !e.cfg.ReadOnly {
		// All work has ended, so this edit is the last one. It says that the session was closed in
		// order.
		err = errors.Join(err, e.recordEnd(e.scrubber.progress))
	}
	err = errors.Join(err, e.log.Close())
	// Each View has a memtable. A committer that has waited may still measure the disk space.
	e.views.Install(func(next *view.View) {
		*next = view.View{Layout: next.Layout, Tables: []*view.Table{newTable(e.cfg, 0)}}
	})
	e.views.ReclaimViews()
	return err
}
