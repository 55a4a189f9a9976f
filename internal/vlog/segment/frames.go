package segment

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// A walk over all frames of a segment, for replay, scan and scrub.

const (
	readBytes = 128 << 10 // read at once: they stay in a processor's own cache until they are used
	bigFrame  = 16 << 20  // larger frames are read through the mapping, if there is one
)

// Frames reads the frames of one segment in order, verifying each against its
// checksums and its predecessor. It keeps one buffer: of 128 KiB, or as long
// as the longest frame; frames over 16 MiB are read in place when the file is mapped.
// It is used by one goroutine.
type Frames struct {
	r      *Reader
	stream pageio.Stream
	end    int64            // offset from which on nothing is read
	values bool             // verify values that have their own checksum
	keys   *frame.Decrypter // nil: the file is plain
	at     Place            // behind the last frame: the next one must follow it

	buf    []byte // bytes of the file from bufOff on
	bufOff int64
}

// Found is one frame. Payload is valid until the next call of Next; Header.Walk goes
// through it.
type Found struct {
	Header frame.Header
	Offset int64 // of the frame; the payload begins frame.HeaderSize later

	Payload []byte
	Totals  frame.Totals // of its records
}

// Frames returns the segment's frames, from the first one to the current end. If values is
// set, it also verifies values that have their own checksum.
func (r *Reader) Frames(values bool) *Frames { return r.FramesFrom(r.header.FirstPlace(), values) }

// FramesFrom is Frames from a place on that an earlier walk has come to.
func (r *Reader) FramesFrom(at Place, values bool) *Frames {
	end := r.end.Load()
	s := &Frames{r: r, stream: r.file.Stream(end), end: end, values: values, at: at}
	if r.keys != nil {
		s.keys = frame.NewDecrypter(r.keys, values, s.readBytes)
	}
	return s
}

// Next returns the next frame, or io.EOF at the end. It returns an *errs.Corruption
// with file and offset for damage of any kind, and then the same again; errs.ErrFormat
// for a frame of a newer release; other errors come from reading.
func (s *Frames) Next() (Found, error) {
	if s.at.Offset == s.end {
		if s.r.header.Kind == filename.Value && !s.at.Sealed {
			// A value segment counts only once it was finished, so it must be whole. A journal segment
			// may end anywhere.
			return Found{}, errs.NewCorruption(s.r.name, s.end, "no seal at the end")
		}
		return Found{}, io.EOF
	}
	found, err := s.readFrame()
	if err != nil {
		if errors.Is(err, frame.ErrFrame) {
			err = &errs.Corruption{File: s.r.name, Offset: s.at.Offset, Reason: fmt.Sprintf("frame %d", s.at.Number+1), Err: err}
		} else if errors.Is(err, errs.ErrFormat) {
			err = fmt.Errorf("%s at %d: %w", s.r.name, s.at.Offset, err)
		}
		return Found{}, err
	}
	// Only after success: a caller that tries again, or asks for At, stays before the bad frame.
	s.at.passFrame(&found.Header, found.Totals)
	return found, nil
}

// readFrame reads the frame at s.at and verifies it.
func (s *Frames) readFrame() (Found, error) {
	if s.at.Sealed {
		return Found{}, fmt.Errorf("%w: data after the seal", frame.ErrFrame)
	}
	left := s.end - s.at.Offset
	if left < frame.HeaderSize {
		return Found{}, fmt.Errorf("%w: %d bytes are left", frame.ErrFrame, left)
	}
	head, err := s.readBytes(s.at.Offset, frame.HeaderSize)
	if err != nil {
		return Found{}, err
	}
	h, err := frame.Decode(head, s.r.id, s.at.Offset)
	if err != nil {
		return Found{}, err
	}
	// A frame with a right checksum may still be a stale one, of an earlier attempt at this place.
	// The chain tells.
	if h.Size > left || !s.at.Continues(&h) {
		return Found{}, fmt.Errorf("%w: frame %d of %d bytes after frame %08x, want frame %d after %08x, %d bytes are left",
			frame.ErrFrame, h.Number, h.Size, h.Chain, s.at.Number+1, s.at.Sum, left)
	}
	if h.Kind != frame.Group && h.Kind != frame.Seal {
		return Found{}, fmt.Errorf("%w: %v in a segment", frame.ErrFrame, h.Kind)
	}
	found := Found{Header: h, Offset: s.at.Offset}
	if err := s.readPayload(&found, &s.at.Tag); err != nil {
		return Found{}, err
	}
	found.Header.Last = found.Totals.Max
	if h.Kind == frame.Seal {
		return found, checkSeal(found.Payload, s.at.Totals)
	}
	return found, nil
}

// readPayload reads and verifies the payload of found, which is encrypted if its file is. before is
// the tag that the encrypted frame before must have; nil accepts any tag.
func (s *Frames) readPayload(found *Found, before *crypt.Tag) (err error) {
	h := &found.Header
	if h.Encrypted != (s.keys != nil) {
		return fmt.Errorf("%w: encrypted %v, its file %v", frame.ErrFrame, h.Encrypted, s.keys != nil)
	}
	if h.Encrypted {
		found.Payload, found.Totals, err = s.keys.DecryptFrame(h, found.Offset, before)
		return err
	}
	payload := found.Offset + frame.HeaderSize
	if found.Payload, err = s.readBytes(payload, h.PayloadSize()); err != nil {
		return err
	}
	defer pageio.Guard(pageio.Arm(), &err, s.r.name) // a big payload is in the mapping
	found.Totals, err = h.Verify(found.Payload, s.r.id, payload, s.values)
	return err
}

// readBytes returns n bytes of the file at off, which the caller has checked
// against the end. They are valid until the next call.
func (s *Frames) readBytes(off, n int64) ([]byte, error) {
	if at := off - s.bufOff; at >= 0 && at+n <= int64(len(s.buf)) {
		return s.buf[at : at+n], nil
	}
	if m := s.r.file.Mapped(); n > bigFrame && m != nil {
		return m[off : off+n : off+n], nil
	}
	// On 32-bit systems a frame can be longer than any slice.
	if n > math.MaxInt-crypt.TagSize {
		return nil, fmt.Errorf("%w: %s: frame of %d bytes", errs.ErrUnsupported, s.r.name, n)
	}
	// What was read beyond the last frame is kept, so that each byte is read once.
	want := min(max(n, readBytes), s.end-off)
	kept := 0
	if at := off - s.bufOff; at >= 0 && at < int64(len(s.buf)) {
		kept = copy(s.buf, s.buf[at:])
	}
	if int64(cap(s.buf)) < want+crypt.TagSize { // as a Decrypter wants it
		grown := make([]byte, want, want+crypt.TagSize)
		copy(grown, s.buf[:kept])
		s.buf = grown
	}
	s.buf = s.buf[:want]
	s.bufOff = off
	// The buffer is invalid if this fails, and must not be taken for file bytes.
	if err := s.stream.ReadFull(s.buf[kept:], off+int64(kept)); err != nil {
		s.buf = s.buf[:0]
		return nil, err
	}
	return s.buf[:n], nil
}

// At is the place behind the last frame.
func (s *Frames) At() Place { return s.at }
