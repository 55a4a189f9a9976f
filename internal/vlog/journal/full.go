package journal

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// A failure that passes, such as a full disk, refuses a group, and stops nothing
// (docs/adr, 21 and 38). Nothing of that group may come back, and no good frame may
// follow a bad one. So the segment ends, durably, with the frame before, as after a
// crash, and the next frame begins another segment. There it can't be mistaken for the
// refused frame: the number of the file is in every checksum.
//
// A failed sync stops the journal even if the disk is full: nobody knows what the disk
// holds.

// refusedError returns the error of an Append that failed before anything was written,
// or after it was cut off again, or of a Sync that the manifest was not told of.
func (j *Journal) refusedError(err error) error {
	if !errs.Passes(err) {
		return j.stopWriting(err)
	}
	if errs.IsFull(err) {
		j.c.Owner.DiskFull()
	}
	return err
}

// cutBack ends cur behind its last whole frame if the cause passes; a segment without
// frames is removed. It returns cause. For any other cause, or if it can't end the
// segment, it returns an errs.ErrStopped.
func (j *Journal) cutBack(cause error) error {
	if err := j.cur.CutBack(); err != nil {
		// If it can't be cut off, recovery takes it for a torn tail.
		return j.stopWriting(errors.Join(cause, err))
	}
	if !errs.Passes(cause) {
		return j.stopWriting(cause)
	}
	// Without this sync a crash could bring the refused frame back.
	if err := j.cur.Sync(); err != nil {
		return j.stopWriting(fmt.Errorf("%w; cut off what was written: %w", cause, err))
	}
	j.endHere()
	return cause
}

// endHere ends cur, which was cut to its last frame, without a seal.
func (j *Journal) endHere() {
	if j.cur.End() > segment.HeaderSize {
		j.updateState(true)
	} else {
		j.dropEmpty()
	}
}

// dropEmpty removes cur, which has no frames. If a crash brings it back, Replay prefers
// the segment that was begun in its place, as that has a greater number.
func (j *Journal) dropEmpty() {
	o := j.cur
	j.mu.Lock()
	j.cur = nil
	// From here on OpenReader doesn't find it, so its file may be closed.
	j.live = j.live[:len(j.live)-1]
	j.mu.Unlock()
	_ = o.Close()
	_ = j.c.FS.Remove(filepath.Join(j.c.Dir, filename.Of(filename.Journal, o.Number())))
}

// Economize says whether to fill no files ahead, because the disk is nearly full.
// It may be called at any time.
func (j *Journal) Economize(on bool) { j.lean.Store(on) }
