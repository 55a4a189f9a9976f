package segment

import (
	"bytes"
	"errors"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/frame"
	"github.com/brockdb/brock/internal/pageio"
)

var zeros [64 << 10]byte

// Tail is what lies behind the last good frame of a segment.
type Tail struct {
	Frames  int    // headers of later frames that validate
	Durable uint64 // greatest frame number that one of them proves durable; 0 = none
	End     int64  // behind the last of these frames
	Used    int64  // behind the last byte that isn't zero, at least End
}

// FindTail searches a segment from offset from on, where frame next was
// expected. The segment's header may be damaged or that of a recycled file.
func FindTail(c Config, kind filename.Kind, number entry.FileNum, from int64, next uint64) (Tail, error) {
	file, err := c.open(kind, number, pageio.Options{NoMap: true})
	if err != nil {
		return Tail{}, err
	}
	s := newFrames(file, filename.Of(kind, number), c.id(kind, number), Header{FirstFrame: next}, file.Size(), false)
	s.off = from
	t, err := s.tail()
	return t, errors.Join(err, file.Close())
}

// tail searches all bytes from off on, skipping zeros fast.
func (s *Frames) tail() (Tail, error) {
	t := Tail{End: s.off, Used: s.off}
	for at := s.off; at < s.end; {
		b, err := s.bytes(at, min(window, s.end-at))
		if err != nil {
			return t, err
		}
		at += s.search(b, at, &t)
	}
	t.Used = max(t.Used, t.End)
	return t, nil
}

// search looks through b, which lies at off, up to the first frame it finds,
// and returns where to go on: behind that frame, or at the first place where a
// header would not have been whole.
func (s *Frames) search(b []byte, off int64, t *Tail) int64 {
	last := off+int64(len(b)) == s.end
	pos := 0
	for pos+frame.HeaderSize <= len(b) {
		if pos&4095 == 0 && pos+4096 <= len(b) && bytes.Equal(b[pos:pos+4096], zeros[:4096]) {
			pos += 4096
			continue
		}
		if h, ok := s.laterFrame(b[pos:], off+int64(pos)); ok {
			end := min(off+int64(pos)+h.Size, s.end)
			t.Frames++
			t.Durable = max(t.Durable, h.Durable())
			t.End = max(t.End, end)
			t.markUsed(b[:pos], off)
			return end - off
		}
		pos += 8
	}
	t.markUsed(b, off)
	if last {
		return int64(len(b))
	}
	return int64(pos)
}

// laterFrame decodes the header at the start of b, at offset off.
func (s *Frames) laterFrame(b []byte, off int64) (frame.Header, bool) {
	if !frame.Plausible(b) {
		return frame.Header{}, false
	}
	h, err := frame.Decode(b, s.id, off)
	return h, err == nil && h.Number >= s.next
}

// markUsed notes the last byte of b, which lies at off, that isn't zero.
func (t *Tail) markUsed(b []byte, off int64) {
	for len(b) > 0 {
		n := min(len(b), len(zeros))
		if part := b[len(b)-n:]; !bytes.Equal(part, zeros[:n]) {
			t.Used = max(t.Used, off+int64(len(b)-n+len(bytes.TrimRight(part, "\x00"))))
			return
		}
		b = b[:len(b)-n]
	}
}
