package frame

import (
	"bytes"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
)

// Tail is what lies behind the last good frame of a file.
//
// What follows from it is the same for journal and manifest. Let k be the number
// of the first frame that is missing or bad. If something proves that frame k was
// durable, this is damage, and the store must not open without it. Otherwise the
// tail is torn: nobody was promised what it holds, and it is cut. Two things
// prove it: a durable frame number that is recorded elsewhere, and Durable, which
// later frames tell. docs/format.md, "Torn tails", has the reasons.
type Tail struct {
	Frames  int    // headers of later frames that validate
	Durable uint64 // greatest frame number that one of them proves durable; 0 = none
	End     int64  // behind the last of these frames
	Used    int64  // behind the last byte that isn't zero, at least End

	Transactions int           // in these frames, as their headers say
	LastVersion  entry.Version // the greatest that one of them has
}

const (
	searchWindow = 1 << 20 // bytes that FindTail asks for at once
	searchStep   = 8       // frames begin at multiples of it
)

var zeros [64 << 10]byte

// FindTail searches the rest of the file id, which has size bytes, for headers of frames from
// number next on. It starts at from, where that frame should have been. The bytes that read
// returns must be valid until its next call.
func FindTail(id checksum.Identity, from int64, next uint64, size int64, read func(off, n int64) ([]byte, error)) (Tail, error) {
	t := Tail{End: from, Used: from}
	for at := from; at < size; {
		b, err := read(at, min(searchWindow, size-at))
		if err != nil {
			return t, err
		}
		// Windows overlap by less than a header, so that one across their border is found.
		at = t.searchFrame(b, at, size, id, next)
	}
	t.Used = max(t.Used, t.End)
	return t, nil
}

// searchFrame looks through b, which lies at off, up to the first frame that it finds.
// It returns where to go on: behind that frame, or at the first place where b has
// no whole header.
func (t *Tail) searchFrame(b []byte, off, size int64, id checksum.Identity, next uint64) int64 {
	h, pos, ok := search(b, id, off, next)
	if ok {
		// No frame begins inside the payload of another.
		end := min(off+int64(pos)+h.Size, size)
		t.Frames++
		t.Durable = max(t.Durable, h.Durable())
		if t.Transactions += int(h.Transactions); h.Transactions > 0 {
			t.LastVersion = max(t.LastVersion, h.LastVersion())
		}
		t.End = max(t.End, end)
		t.markUsed(b[:pos], off)
		return end
	}
	t.markUsed(b, off)
	if off+int64(len(b)) == size {
		return size
	}
	return off + int64(pos)
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

// Find returns the first whole header of a frame of the file id that lies at from or behind, and
// where it is: at size if there is none. read returns n bytes at off, valid until its next call;
// nil if they can't be read.
func Find(id checksum.Identity, from, size int64, read func(off, n int64) []byte) (h Header, at int64) {
	// In most cases the next frame is where it is looked for, so the first window is one header.
	for window := int64(HeaderSize); from+HeaderSize <= size; window = findWindow {
		b := read(from, min(window, size-from))
		if h, pos, ok := search(b, id, from, 0); ok {
			return h, from + int64(pos)
		}
		// Windows overlap by less than a header.
		from += max(searchStep, min(window, size-from)-HeaderSize+searchStep) &^ (searchStep - 1)
	}
	return h, size
}

// search returns the first place in b, which lies at off of the file id, at which a frame's header
// is whole, and its number is next or more. Without one, pos is the first place where b has no whole
// header.
func search(b []byte, id checksum.Identity, off int64, next uint64) (h Header, pos int, ok bool) {
	for pos+HeaderSize <= len(b) {
		// Preallocated rests are zeros for megabytes: skip them by the page.
		if pos&4095 == 0 && pos+4096 <= len(b) && bytes.Equal(b[pos:pos+4096], zeros[:4096]) {
			pos += 4096
			continue
		}
		if plausible(b[pos:]) {
			// The checksum depends on file and offset, so a frame's bytes within a user's value are
			// not taken for one.
			h, err := Decode(b[pos:], id, off+int64(pos))
			if err == nil && h.Number >= next {
				return h, pos, true
			}
		}
		// Not at the length that a bad header says: it can't be trusted.
		pos += searchStep
	}
	return Header{}, pos, false
}

// findWindow is how many bytes Find reads at once: they stay in a processor's own cache.
const findWindow = 128 << 10
