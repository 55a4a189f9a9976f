package segment

import (
	"errors"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// What lies behind the good frames of a segment after a crash.

// maxTail is more than can lie behind the good frames of a segment: what was
// preallocated, at most 2 GiB, and a frame that a crash has torn.
const maxTail = 8 << 30

// FindTail searches a segment from offset from on, where frame next was expected.
// The segment's header may be damaged. It returns an
// *errs.Corruption for a file that is longer than any write makes it.
func FindTail(c Config, kind filename.Kind, number entry.FileNum, from int64, next uint64) (frame.Tail, error) {
	file, err := c.openFile(kind, number, pageio.Options{NoMap: true})
	if err != nil {
		return frame.Tail{}, err
	}
	if file.Size()-from > maxTail {
		err := errs.NewCorruption(filename.Of(kind, number), from, "the frames end here, and no write leaves %d bytes behind them", file.Size()-from)
		return frame.Tail{}, errors.Join(err, file.Close())
	}
	id := c.id(kind, number)
	s := newFrames(file, filename.Of(kind, number), id, kind, Place{}, nil, file.Size(), false)
	t, err := frame.FindTail(id, from, next, s.end, s.readBytes)
	return t, errors.Join(err, file.Close())
}
