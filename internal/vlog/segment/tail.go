package segment

import (
	"errors"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// What lies behind the good frames of a segment after a crash.

// maxTail is more than can lie behind the good frames of a segment: what was
// preallocated, at most 2 GiB, and a frame that a crash has torn.
const maxTail = 8 << 30

// SearchTail searches a segment from offset from on, where frame next was expected.
// The segment's header may be damaged. It returns an
// *errs.Corruption for a file that is longer than any write makes it.
func SearchTail(c Config, kind filename.Kind, number entry.FileNum, from int64, next uint64) (frame.Tail, error) {
	r, err := c.openUnread(kind, number, 0, OpenOptions{NoMap: true})
	if err != nil {
		return frame.Tail{}, err
	}
	if r.End()-from > maxTail {
		err := errs.NewCorruption(r.name, from, "the frames end here, and no write leaves %d bytes behind them", r.End()-from)
		return frame.Tail{}, errors.Join(err, r.Close())
	}
	t, err := frame.FindTail(r.id, from, next, r.End(), r.Frames(false).readBytes)
	return t, errors.Join(err, r.Close())
}
