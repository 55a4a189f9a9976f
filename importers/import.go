package importers

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/brockdb/brock"
)

// Import writes the pairs of a source to a new store, and then compares the two, pair by pair. When it
// returns nil, the store is whole, closed and durable.
//
// The store must be empty or not exist, unless Options.Keyspace is set. If the process ends before, or ctx does, the store stays
// unfinished, with a directory beside it (WorkSuffix): Import with the same options goes on where it
// was. An import that fails before it has written anything leaves nothing.
//
// It returns ErrInUse, ErrNotEmpty, ErrUsage, ErrSource, ErrRefused for what Brock can't store,
// ErrDiffers, and the errors of brock.Open and of writes. After ErrDiffers the store is there, and so
// is the directory, and the Summary says what differs.
func Import(ctx context.Context, o Options) (_ *Summary, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	w, err := beginWork(&o)
	if err != nil {
		return nil, err
	}
	defer w.release()
	i := &importing{Options: &o, work: w, summary: Summary{Resumed: w.resumed}}
	if i.total, err = sizeOf(&o); err == nil {
		err = i.run(ctx)
	}
	switch {
	case err == nil:
		return &i.summary, w.end()
	case errors.Is(err, ErrDiffers):
		return &i.summary, err
	case i.vain:
		err = errors.Join(err, i.undo())
	}
	return nil, err
}

// importing is an import under way.
type importing struct {
	*Options
	work    *work
	source  source
	db      *brock.DB
	summary Summary
	total   int64 // bytes of the source's files: an estimate of those of its pairs
	made    bool  // this import has made the store's directory
	vain    bool  // nothing was written
	shown   int64 // bytes as of the last report
	before  int64 // bytes that an earlier import has written, about
}

// sizeOf returns the bytes in the files of the source.
func sizeOf(o *Options) (total int64, err error) {
	files, err := o.sourceFiles()
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			total += info.Size()
		}
	}
	return total, err
}

func (i *importing) run(ctx context.Context) (err error) {
	i.vain = !i.work.resumed
	if i.source, err = i.open(i.work.staged()); err != nil {
		return err
	}
	defer cleanup(&err, i.source.close)
	if i.summary.Lost, err = i.source.lost(ctx); err != nil {
		return err
	}
	_, missing := os.Stat(i.Store.Dir)
	i.made = os.IsNotExist(missing)
	if i.db, err = brock.OpenContext(ctx, i.storeOptions()); err != nil {
		return err
	}
	found := i.db.Version()
	defer func() {
		i.vain = i.vain && i.db.Version() == found
		err = errors.Join(err, i.db.Close())
	}()
	if i.History {
		err = i.importHistory(ctx)
	} else {
		err = i.importNewest(ctx)
	}
	if err != nil {
		return err
	}
	if !i.work.resumed {
		i.total = i.summary.Bytes // it is known now
	}
	c := comparing{source: i.source, db: i.db, history: i.History, only: i.Keyspace != "", report: i.report}
	err = c.run(ctx)
	i.summary.Version, i.summary.Compared = i.db.Version(), c.Compared
	return err
}

// undo removes what an import has made that has written nothing.
func (i *importing) undo() (err error) {
	if i.made {
		err = os.RemoveAll(i.Store.Dir)
	}
	return errors.Join(err, i.work.end())
}

// reportEvery is how many bytes pass between two reports of progress.
const reportEvery = 64 << 10

// report tells the caller how far a step has come.
func (i *importing) report(step string, done int64) {
	if i.Progress == nil || done-i.shown < reportEvery && done > i.shown {
		return
	}
	i.shown = done
	i.Progress(Progress{Step: step, Bytes: done, Total: max(i.total, done)})
}

// refusedPair names the pair that the store has refused.
func refusedPair(name string, p *pair, err error) error {
	if errors.Is(err, brock.ErrInvalid) && !errors.Is(err, brock.ErrVersionMismatch) {
		return fmt.Errorf("key %.60q%s %w: %w", p.key, inKeyspace(name), ErrRefused, err)
	}
	return err
}

// inKeyspace names a keyspace in a message.
func inKeyspace(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" of keyspace %.300q", name)
}
