package manifest

import (
	"errors"
	"fmt"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/layout"
)

// EncryptStore makes the plain store an encrypted one, with the keys that o.Keys makes: it begins
// an encrypted manifest, and SUPER names it. Files that are there stay plain: the layout has
// them without a file key id, and its data key asks for them to be rewritten. An encrypted store
// ignores a plain journal, so all entries must be in runs: else it returns
// errs.ErrRefused. The store is encrypted once SUPER's first slot is written: a crash before
// leaves it as it was. The caller holds the store's lock, and nobody has the store open.
func EncryptStore(o Options) (err error) {
	keys := o.Keys
	o.Keys = nil
	l, err := Open(o)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			// Then Close doesn't write SUPER, which would name the plain manifest.
			l.mu.Lock()
			_ = l.stopLocked(err)
			l.mu.Unlock()
		}
		err = errors.Join(err, l.Close())
	}()
	// Before the keys are made: a refusal leaves no trace.
	if err := l.checkFlushed(); err != nil {
		return err
	}
	ring, err := keys(l.super.UUID, true)
	if err != nil {
		return err
	}
	next, err := l.layout.Apply(&layout.Edit{DataKey: layout.DataKey{ID: ring.Current(), Rewrite: true}})
	if err != nil {
		return err
	}
	l.layout, l.ring = next, ring
	// Renew writes the manifest first and then SUPER, all encrypted. Until SUPER names the new
	// manifest the plain one counts.
	l.super.Required |= encrypted
	l.super.key = storeKey(ring)
	l.values.Required, l.values.key = l.super.Required, valuesKey(ring)
	return l.Renew()
}

// checkFlushed returns errs.ErrRefused if a journal segment may have entries that no run has.
func (l *Log) checkFlushed() error {
	waits := func(num entry.FileNum) bool { return num > l.layout.FlushedTo() && l.layout.Segment(num) == nil }
	for _, end := range l.layout.JournalEnds() {
		if waits(end.File) {
			return fmt.Errorf("%w: the journal is not flushed up to segment %d", errs.ErrRefused, end.File)
		}
	}
	// The manifest learns of a segment with its first sync only, so look at the files, too. The
	// last directory has the values.
	dirs := l.o.dirs()
	names, err := l.o.FS.List(dirs[len(dirs)-1])
	if err != nil {
		return err
	}
	for _, base := range names {
		if name, ours := filename.Parse(base); ours && name.Kind == filename.Journal && waits(name.Number) {
			return fmt.Errorf("%w: the journal segment %s is not flushed", errs.ErrRefused, base)
		}
	}
	return nil
}
