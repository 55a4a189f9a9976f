package segment

import (
	"errors"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/frame"
	"github.com/brockdb/brock/internal/pageio"
)

// FindTail searches a segment from offset from on, where frame next was expected.
// The segment's header may be damaged, or that of a recycled file.
func FindTail(c Config, kind filename.Kind, number entry.FileNum, from int64, next uint64) (frame.Tail, error) {
	file, err := c.open(kind, number, pageio.Options{NoMap: true})
	if err != nil {
		return frame.Tail{}, err
	}
	id := c.id(kind, number)
	s := newFrames(file, filename.Of(kind, number), id, Header{FirstFrame: next}, file.Size(), false)
	t, err := frame.FindTail(id, frame.Cursor{Offset: from, Next: next}, s.end, s.bytes)
	return t, errors.Join(err, file.Close())
}
