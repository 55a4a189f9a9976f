package manifest

import (
	"errors"
	"fmt"

	"github.com/brockdb/brock/internal/base/errs"
)

// A failure that passes, such as a full disk, refuses an edit, and stops nothing
// (docs/adr, 21 and 38): a write that failed is taken back before anything else is
// written. Any other failed write, and every failed sync, stops the log.

// stopLocked ends all writing, and returns the error that says so.
func (l *Log) stopLocked(cause error) error {
	err := fmt.Errorf("%w: manifest: %w", errs.ErrStopped, cause)
	l.stopped.Store(&err)
	return err
}

// retractLocked takes back a frame whose write has failed. The next frame will have
// its place and its number, so no part of it may be found by a later Open.
func (l *Log) retractLocked(cause error) error {
	// What the file holds now is unknown, so nothing may be built on it.
	if !errs.Passes(cause) {
		return l.stopLocked(cause)
	}
	// The truncation must be durable before the next frame is written: a crash
	// could otherwise leave the rest of this frame behind that one.
	err := l.file.Truncate(l.end.Offset)
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		return l.stopLocked(errors.Join(cause, err))
	}
	return fmt.Errorf("manifest: %w", cause)
}

// updateSupersLocked brings both SUPERs up to date. The store's is behind if that was refused when the
// manifest was begun. Until it is written, one slot leads to the manifest before it, which says
// the same.
func (l *Log) updateSupersLocked() error {
	if l.super.behind+l.values.behind == 0 {
		return nil
	}
	switch err := l.writeSupers(); {
	case writePasses(err):
		return fmt.Errorf("manifest: %w", err)
	// A failed sync: either slot may be on the disk.
	case err != nil:
		return l.stopLocked(err)
	}
	l.removeOldManifests()
	return nil
}

// writeSupers writes the slots that are behind, the store's before those of the value directory:
// so a session is known to the store before its value directory has it.
func (l *Log) writeSupers() error {
	if l.super.behind > 0 {
		// Every frame up to end was synced before.
		l.super.recordDurable(l.end)
	}
	err := l.super.writeSlots(l.o.FS)
	if err == nil && l.o.hasValueDir() {
		err = l.values.writeSlots(l.o.FS)
	}
	return err
}
