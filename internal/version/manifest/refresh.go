package manifest

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// Refresh reads what another process has written since Load or the last Refresh, up to
// the last whole edit, and makes sure that it is durable. Only a read-only log has it.
// After an error all is as before. The error may come from that process having gone on
// meanwhile: then another Refresh succeeds. It returns errs.ErrForeign if another store,
// or an older copy of this one, has taken the place of the files.
func (l *Log) Refresh() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	// The writer may be writing a slot. Then that one is torn, and the other counts.
	s, _, err := openSuper(&l.o)
	if s.ok && s.UUID != l.super.UUID {
		return fmt.Errorf("%w: another store has taken the place of the one in %s", errs.ErrForeign, l.o.Dir)
	}
	if err == nil {
		_, err = openValueDir(&l.o, &s.Super, l.ring)
	}
	if err != nil {
		return err
	}
	// Restored after an error: the caller goes on with what it had.
	before := l.state
	// Usually only a few edits have come. Read those alone.
	if s.Manifest == l.super.Manifest {
		l.super = s
		err = l.readEdits()
	} else if now, loading := Load(l.o); loading == nil {
		l.state = now.state
	} else {
		err = loading
	}
	if err == nil && l.layout != before.layout {
		err = l.checkContinues(&before)
	}
	if err == nil && l.end != l.secured {
		err = l.syncManifest()
	}
	l.secured = l.end
	if err != nil {
		l.state, l.secured = before, frame.End{}
	}
	return err
}

// checkContinues returns an error unless what was read goes on from the state before.
func (l *Log) checkContinues(before *state) error {
	// The old manifest may have got more frames before the new one was begun.
	p, end := l.before, before.end.Name
	other := p.File == end.File && (p.Number < end.Number || p.Number == end.Number && p != end)
	// Run ids are never used twice, so a run that has other files is another store's.
	for _, r := range l.layout.Runs() {
		was := before.layout.Run(r.ID)
		other = other || was != nil && !slices.Equal(was.Files, r.Files)
	}
	switch {
	// Frames that fit are not enough: a copy of the store continues the same frames up to where it
	// was made.
	case other, !l.layout.Sessions().ContinueFrom(before.layout.Sessions()):
		return errOtherCopy(filename.Of(filename.Manifest, l.super.Manifest))
	case l.layout.NextFile() < before.layout.NextFile():
		return fmt.Errorf("%w: an older copy of the store has taken its place in %s", errs.ErrForeign, l.o.Dir)
	}
	return nil
}

// syncManifest makes the manifest durable, by a descriptor that can't write: the sync of an
// edit may not have come yet.
func (l *Log) syncManifest() error {
	f, err := l.o.FS.Open(filepath.Join(l.o.Dir, filename.Of(filename.Manifest, l.super.Manifest)))
	if err != nil {
		return err
	}
	// Before the caller relies on what it has read: a crash must not take it back.
	return errors.Join(f.SyncData(), f.Close())
}
