package tree

import (
	"context"
	"errors"

	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/vfs"
)

// Close ends background work and waits for it, makes the journal durable and
// records where it ends, and closes the manifest. The commit pipeline has been
// closed before. Files are closed when the last reader has let go of them.
func (t *Tree) Close() error {
	if !t.views.Close() {
		return nil
	}
	t.life.cancel(errs.ErrClosed)
	t.spilling.Lock() // who writes a transaction's files ends first; who comes later sees that the store is closed
	t.views.Wake()
	t.spilling.Unlock()
	err := t.cfg.Jobs.Close(context.Background())
	t.turns.merging.Lock() // Compact, Reclaim and CatchUp do their work on the goroutine of their caller
	defer t.turns.merging.Unlock()
	t.turns.searching.Lock()
	defer t.turns.searching.Unlock()
	t.turns.collecting.Lock()
	defer t.turns.collecting.Unlock()
	t.throttle.end()
	if !t.cfg.ReadOnly {
		err = errors.Join(err, t.closeJournal())
	}
	err = errors.Join(err, t.log.Close())
	t.views.Install(func(next *view.View) { *next = view.View{Layout: next.Layout} })
	t.views.Reclaim()
	t.files.removeSpares(true)
	return err
}

// closeJournal makes the journal durable and records its end.
func (t *Tree) closeJournal() error {
	if err := t.journal.Close(); err != nil {
		return err
	}
	t.recording.Lock()
	defer t.recording.Unlock()
	edit := &layout.Edit{CleanClose: true, LastVersion: max(t.Visible(), t.layout().LastVersion()), NextFile: t.files.last() + 1}
	if segments := t.unflushed.segments(); len(segments) > 0 {
		edit.JournalEnds = []layout.JournalEnd{endOf(segments[len(segments)-1])}
	}
	_, err := t.log.Append(edit)
	return vfs.NoSpace(err)
}
