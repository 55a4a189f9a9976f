package segment

import (
	"errors"
	"io"
)

// Scrub verifies the frames behind the place up to which it was called before, and their values,
// until it has read most bytes or all; done says that there is no more. The zero value is the
// file's beginning: then it verifies the header, too.
func (r *Reader) Scrub(c Config, upTo *Place, most int64) (done bool, err error) {
	if *upTo == (Place{}) {
		// From the disk again: the copy in memory can't tell of damage.
		if _, _, err := c.openPage(r.file, r.header.Kind, r.header.Number, r.header.KeyID); err != nil {
			return true, err
		}
		*upTo = r.header.FirstPlace()
	}
	frames := r.FramesFrom(*upTo, true)
	for end := frames.at.Offset + most; frames.at.Offset < end; {
		_, err := frames.Next()
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return true, err
		}
	}
	// Only between whole frames, and only after success: damage is met again by the next call.
	*upTo = frames.at
	return false, nil
}
