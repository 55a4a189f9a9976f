package journal

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// Follower reads a journal that another process may be writing, piece by piece. It takes
// no lock, and shows only frames that the writer never takes back. It is used by one
// goroutine. Any error may have come from the writer having gone on: then the caller
// reads the manifest again, and calls again.
type Follower struct {
	replay
	fresh bool // what lies behind the end was not yet searched for proofs of durable frames
}

// NewFollower returns a Follower of the journal that c describes, of which Known is given to
// Follow.
func NewFollower(c ReplayConfig, fn func(pos entry.Position, payload []byte, h frame.Header) error) *Follower {
	c.ReadOnly = true
	return &Follower{fresh: true, replay: replay{c: c, fn: fn}}
}

// Reset forgets what was read: the next Follow begins at Known.Begin.
func (f *Follower) Reset() { f.broken, f.out, f.fresh = nil, ReplayResult{}, true }

// Segments describes, in order, the segments that were read and not forgotten, up to the
// frames that were shown.
func (f *Follower) Segments() []SegmentInfo { return f.out.Segments }

// End is where the frames end that were shown.
func (f *Follower) End() Point { return f.point }

// Follow calls fn for each group that has come since the last call, as Replay does, and
// makes sure that all of them are durable before it returns. If fn has returned an error,
// call Reset before the next Follow.
//
// The last frame of a segment that the manifest doesn't know of yet is not shown unless
// something follows it: only such a frame may be taken back (Journal.Retract). One that
// was published before the manifest was written never is.
func (f *Follower) Follow(k Known) error {
	if err := f.CheckSame(k); err != nil {
		return err
	}
	f.c.Known, f.met = k, 0
	// The records of these are in runs now: the caller reads them there.
	for len(f.out.Segments) > 0 && f.out.Segments[0].File <= k.Begin.File {
		f.out.Segments = f.out.Segments[1:]
	}
	if len(f.out.Segments) == 0 {
		f.point = k.Begin
	}
	f.unproven.proven = max(f.unproven.proven, k.LastProven())
	// The manifest was read first. So all that it proves durable must be found now.
	if err := f.showNewFrames(); err != nil {
		return err
	}
	durable := k.LastProven()
	if f.fresh && !f.atRecordedEnd() {
		// Frames behind the end prove that one is damaged, unless it was written
		// meanwhile: then it is whole now.
		var err error
		if durable, _, err = f.searchTails(); err != nil {
			return err
		}
		if f.point.Number < durable {
			if err := f.showNewFrames(); err != nil {
				return err
			}
		}
	}
	if f.point.Number < durable {
		return f.missingFrameError(durable)
	}
	f.fresh = false
	// Before the caller shows the frames to anybody: a crash of the machine must not take back what
	// was read.
	return f.secureShown()
}

// CheckSame returns errs.ErrForeign if the manifest knows another frame than one that was shown, or
// a later session has found the journal without a frame that was shown: then another copy of the
// store has gone on. Call it before Reset, which forgets what was shown.
func (f *Follower) CheckSame(k Known) error {
	for _, end := range k.Found {
		for _, shown := range f.out.Segments {
			if end.Number != 0 && !shown.canEndAt(end) {
				return fmt.Errorf("%w: the journal was read up to {%v}, and the writer has found it to end with {%v}", errs.ErrForeign, shown.Name, end.Name)
			}
		}
	}
	// A file and a number are not enough: a copy of the store has the same ones. The checksum, or
	// the tag, of the frame tells them apart.
	for _, known := range append(k.Durable[:len(k.Durable):len(k.Durable)], k.Begin.End) {
		for _, shown := range f.out.Segments {
			if known.Number < shown.FirstFrame || known.Number > shown.Number {
				continue
			}
			if known.File != shown.File || known.KeyID != shown.KeyID || known.Number == shown.Number && known.Name != shown.Name {
				return fmt.Errorf("%w: the journal was read up to {%v}, and the manifest knows {%v}", errs.ErrForeign, shown.Name, known.Name)
			}
		}
	}
	return nil
}

// showNewFrames shows the frames that have come since the last call.
func (f *Follower) showNewFrames() error {
	// The writer makes and removes segments at any time, so the directory is read anew.
	f.found = nil
	if err := f.readHeaders(f.point.File); err != nil {
		return err
	}
	if n := len(f.out.Segments); n > 0 && !f.out.Segments[n-1].Sealed {
		if err := f.resumeSegment(f.out.Segments[n-1]); err != nil {
			return err
		}
	}
	// What follows the end of a journal that was closed was written since the manifest was read.
	for next := f.nextSegment(); next != nil; next = f.nextSegment() {
		if err := f.resumeSegment(emptySegment(&next.header)); err != nil {
			return err
		}
		if f.point.File != next.header.Number {
			break // none of its frames is sure to stay
		}
		next.visited = true
	}
	return nil
}

// resumeSegment shows the frames that have come in the segment s behind its known end, up to those
// that may be taken back.
func (f *Follower) resumeSegment(s SegmentInfo) error {
	rd, err := f.openSegment(&s)
	if err != nil {
		return err
	}
	end := rd.End()
	// The manifest doesn't know of this segment yet, so the writer may take its last frame back.
	if f.c.Known.LastProven() < s.FirstFrame {
		end, err = f.settledEnd(rd.FramesFrom(s.Place, true))
	}
	if err == nil {
		err = f.passFrames(rd.FramesFrom(s.Place, true), s, end)
	}
	return errors.Join(err, rd.Close())
}

// settledEnd returns where the frames of a segment that is not registered end that the writer
// never takes back.
func (f *Follower) settledEnd(frames *segment.Frames) (end int64, err error) {
	end = frames.At().Offset
	var last frame.Header
	for {
		at := frames.At()
		found, err := frames.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, frame.ErrFrame) {
			break
		}
		if err != nil {
			return 0, err
		}
		// found was written behind the frames before it: those are never taken back.
		end, last = at.Offset, found.Header
	}
	at := frames.At()
	// The last frame stays, too: nothing is taken back before a seal, or once its version was
	// published.
	if last.Kind == frame.Seal || last.FirstVersion != 0 && last.FirstVersion <= f.c.Known.Version {
		return at.Offset, nil
	}
	// Another file names it as the end of this one, so the writer has gone on behind it.
	if f.ends.isEnd(at.Name) {
		return at.Offset, nil
	}
	return end, nil
}

// secureShown syncs the frames that nothing proves durable: the writer may sync them later
// than this process shows them or, for Buffered commits, never.
func (f *Follower) secureShown() error {
	last := f.point.Number
	if last <= f.unproven.proven {
		return nil
	}
	for _, s := range f.out.Segments {
		if s.Number <= f.unproven.proven {
			continue
		}
		if err := f.syncSegment(s.File); err != nil {
			return fmt.Errorf("make %s durable: %w", filename.Of(filename.Journal, s.File), err)
		}
	}
	// The manifest doesn't name the last segment, so perhaps no sync of the directory has covered
	// it.
	if f.c.Known.LastProven() < f.out.Segments[len(f.out.Segments)-1].FirstFrame {
		if err := f.c.FS.SyncDir(f.c.Dir); err != nil {
			return err
		}
	}
	f.unproven.proven = last
	return nil
}

// syncSegment makes a segment durable, by a descriptor that can't write.
func (f *Follower) syncSegment(num entry.FileNum) error {
	file, err := f.c.FS.Open(filepath.Join(f.c.Dir, filename.Of(filename.Journal, num)))
	if err != nil {
		return err
	}
	return errors.Join(file.SyncData(), file.Close())
}
