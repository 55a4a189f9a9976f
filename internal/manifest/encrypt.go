package manifest

import (
	"errors"
	"fmt"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/layout"
)

// Encrypt makes the plain store an encrypted one, with the keys that o.Keys makes: it begins
// an encrypted manifest, and SUPER names it. Files stay plain, as the layout has them without
// a life, and are to be rewritten. A plain journal would not count any more, so all must be in
// runs. The first slot of SUPER is the moment: a crash before leaves the store as it was. The
// caller holds the store's lock, and nobody has it open.
func Encrypt(o Options) (err error) {
	keys := o.Keys
	o.Keys = nil
	l, err := Open(o)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			// So that Close writes no SUPER: it would name the plain manifest.
			l.mu.Lock()
			_ = l.stopLocked(err)
			l.mu.Unlock()
		}
		err = errors.Join(err, l.Close())
	}()
	if err := l.allFlushed(); err != nil {
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
	l.super.Required |= encrypted
	l.values.super.Required, l.values.key = l.super.Required, valuesKey(ring)
	return l.Renew()
}

// allFlushed returns errs.ErrRefused if a journal segment may have what no run has.
func (l *Log) allFlushed() error {
	waits := func(num entry.FileNum) bool { return num > l.layout.FlushedTo() && l.layout.Segment(num) == nil }
	for _, end := range l.layout.JournalEnds() {
		if waits(end.Segment) {
			return fmt.Errorf("%w: the journal is not flushed up to segment %d", errs.ErrRefused, end.Segment)
		}
	}
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
