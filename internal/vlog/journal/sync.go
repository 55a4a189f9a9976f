package journal

import (
	"fmt"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// Sync makes everything appended so far durable, and registers the segment that it
// ends in. After an error that passes, what was appended since the last Sync may be
// durable or not, and the next Sync, or a Retract, may follow. After any other error
// the journal has stopped; then, too, the last appends may be durable or not.
func (j *Journal) Sync() error {
	if err := j.Err(); err != nil {
		return err
	}
	pending := j.unsyncedFrames() > 0
	if pending {
		// In order, so that no durable frame follows one that is not.
		err := j.SyncSealed()
		if err == nil && j.cur != nil {
			err = j.syncFile(j.cur)
		}
		if err != nil {
			return err
		}
	}
	// After the data: a manifest that names a frame which a crash then takes away would make Replay
	// report damage. Before the caller hears of success: else the last file could vanish unnoticed.
	if err := j.Register(); err != nil {
		return j.refusedError(err)
	}
	if pending {
		// Not earlier: until here Retract may take the last frame back.
		j.mu.Lock()
		j.noteDurableLocked(j.point.End, j.point.LastVersion)
		j.mu.Unlock()
		j.bulk, j.synced = 0, j.bulk
	}
	return nil
}

// SyncSealed makes the segments durable that are sealed now, oldest first, and closes their
// files; it may run in the background. It may be called again after an error that
// passes; any other stops the journal.
func (j *Journal) SyncSealed() error {
	j.syncing.Lock()
	defer j.syncing.Unlock()
	j.mu.Lock()
	sealed := slices.Clone(j.sealed)
	j.mu.Unlock()
	for _, o := range sealed {
		if err := j.Err(); err != nil {
			return err
		}
		if err := j.syncFile(o); err != nil {
			return err
		}
		// Only Forget removes segments too, and it holds syncing. OpenReader must not
		// find the reader that Close is about to close.
		j.mu.Lock()
		j.sealed = j.sealed[1:]
		j.noteDurableLocked(o.At().End, o.At().Max)
		j.mu.Unlock()
		if err := o.Close(); err != nil {
			return j.stopWriting(err)
		}
	}
	return j.Err()
}

// syncFile makes a segment durable, and its name the first time. To sync the directory may
// take a file descriptor: if there is none now, the error passes. Every other failure stops
// the journal.
func (j *Journal) syncFile(o *open) error {
	if err := o.Sync(); err != nil {
		// No second try: after a failed sync the system may take the pages for clean, and the next
		// one would succeed without having written them.
		return j.stopWriting(fmt.Errorf("sync %s: %w", o.Name(), err))
	}
	if o.named {
		return nil
	}
	// Without this a crash may lose the file's name, and its durable frames with it.
	if err := j.c.FS.SyncDir(j.c.Dir); err != nil {
		err = fmt.Errorf("sync directory of %s: %w", o.Name(), err)
		if errs.IsRefused(err) {
			return err
		}
		return j.stopWriting(err)
	}
	o.named = true
	return nil
}

// noteDurableLocked notes that the frames up to end are durable. newest is the greatest version in
// the last segment of these, 0 if it has none.
func (j *Journal) noteDurableLocked(end frame.End, newest entry.Version) {
	if end.Number > j.proven.Number {
		j.proven = Point{end, max(j.proven.LastVersion, newest)}
		j.durable.Store(end.Number)
		if j.c.OnDurable != nil {
			j.c.OnDurable()
		}
	}
}

// stopWriting ends all writing for good: what a failed write or sync left behind is
// unknown, and a sync that is tried again may succeed without the data. It
// returns the error that all later calls get: that of the first failure.
func (j *Journal) stopWriting(cause error) error {
	err := fmt.Errorf("%w: %w", errs.ErrStopped, cause)
	// The first failure stays; later ones follow from it.
	j.failure.CompareAndSwap(nil, &err)
	return *j.failure.Load()
}

// Err returns nil, or an errs.ErrStopped that wraps the failure which stopped
// the journal, or errs.ErrClosed.
func (j *Journal) Err() error {
	if p := j.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// Close seals the segment being written, cuts it to its end, makes everything
// durable and closes the files. After a failure it only closes them, and
// returns the failure. Closing again does nothing.
func (j *Journal) Close() error {
	j.mu.Lock()
	again := j.closed
	j.closed = true
	j.mu.Unlock()
	if again {
		return nil
	}
	// Sealed, so that the sync cuts off the zeros ahead of its end.
	_, err := j.Rotate()
	if err == nil {
		err = j.SyncSealed()
	}
	// From here on Append and Sync return errs.ErrClosed, or the failure if there was one.
	closed := errs.ErrClosed
	j.failure.CompareAndSwap(nil, &closed)
	// A SyncSealed in the background may still use one of these files.
	j.syncing.Lock()
	defer j.syncing.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, o := range append(j.sealed, j.cur) {
		if o != nil {
			_ = o.Close() // err says already that its data may be lost
		}
	}
	j.sealed, j.cur = nil, nil
	return err
}
