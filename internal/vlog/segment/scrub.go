package segment

import (
	"errors"
	"io"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// Scrubbed is how far a segment was verified; the zero value is its beginning.
type Scrubbed struct {
	at     frame.Cursor
	totals frame.Totals
	sealed bool
}

// Offset is the place in the file up to which it was verified.
func (s *Scrubbed) Offset() int64 { return s.at.Offset }

// Scrub verifies the frames behind s and their values, until it has read most bytes or
// all; done says that there is no more. It begins with the file's header.
func (r *Reader) Scrub(c Config, s *Scrubbed, most int64) (done bool, err error) {
	frames := r.Frames(true)
	if *s == (Scrubbed{}) {
		// From the disk again: the copy in memory can't tell of damage.
		h, err := ReadHeader(c, r.header.Kind, r.header.Number)
		if err == nil {
			err = sameLife(h.Life, r.header.Life)
		}
		if err != nil {
			return true, headerError(r.name, err)
		}
	} else {
		frames.Resume(s.at, s.totals, s.sealed)
	}
	for end := frames.at.Offset + most; frames.at.Offset < end; {
		_, err := frames.Next()
		if errors.Is(err, io.EOF) {
			if r.header.Kind == filename.Value && !frames.Sealed() {
				return true, errs.NewCorruption(r.name, frames.at.Offset, "no seal at the end")
			}
			return true, nil
		}
		if err != nil {
			return true, err
		}
	}
	// Only between whole frames, and only after success: damage is met again by the next call.
	*s = Scrubbed{frames.at, frames.totals, frames.sealed}
	return false, nil
}
