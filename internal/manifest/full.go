package manifest

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/vfs"
)

// A full disk refuses an edit, and stops nothing (docs/adr, 21): a write that
// failed for want of space is taken back before anything else is written. What
// failed otherwise, and every failed sync, stops the log.

// unwritten is the error of a write that the disk had no room for: not that of a sync.
type unwritten struct{ error }

func (u unwritten) Unwrap() error { return u.error }

// written tells a write that found no room from others that failed.
func written(err error) error {
	if vfs.IsNoSpace(err) {
		return unwritten{vfs.NoSpace(err)}
	}
	return err
}

func isUnwritten(err error) bool { return errors.As(err, new(unwritten)) }

// stopLocked ends all writing, and returns the error that says so.
func (l *Log) stopLocked(cause error) error {
	l.stopped = cause
	return l.writableLocked()
}

// retractLocked takes back a frame whose write has failed: nobody may find it,
// whole or not, as the next one will have its place and its number.
func (l *Log) retractLocked(cause error) error {
	if cause = written(cause); !isUnwritten(cause) {
		return l.stopLocked(cause)
	}
	err := l.file.Truncate(l.end.Offset)
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		return l.stopLocked(errors.Join(cause, err))
	}
	return fmt.Errorf("manifest: %w", cause)
}

// settleLocked writes the slots of SUPER that don't name the manifest yet, if a
// full disk kept that from being done when the manifest was begun. Until then
// one slot leads to the manifest before it, which says the same.
func (l *Log) settleLocked() error {
	if l.slots == 0 {
		return nil
	}
	switch err := l.writeSuper(l.slots); {
	case isUnwritten(err):
		return fmt.Errorf("manifest: %w", err)
	case err != nil:
		return l.stopLocked(err)
	}
	// What stays behind is removed by the next Open.
	_ = l.o.FS.Remove(filepath.Join(l.o.Dir, filename.Of(filename.Manifest, l.previous)))
	return nil
}
