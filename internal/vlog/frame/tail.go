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
	searchWindow = 128 << 10 // bytes that a search reads at once: they stay in a processor's own cache
	searchStep   = 8         // frames begin at multiples of it
)

var zeros [64 << 10]byte

// FindTail searches the rest of the file id, which has size bytes, for headers of frames from
// number next on. It starts at from, where that frame should have been. The bytes that read
// returns must be valid until its next call.
func FindTail(id checksum.Identity, from int64, next uint64, size int64, read func(off, n int64) ([]byte, error)) (t Tail, err error) {
	readNoted := func(off, n int64) (b []byte) {
		if err == nil {
			b, err = read(off, n)
		}
		return b
	}
	t.End = from
	for h, at := FindHeader(id, next, from, size, readNoted); at < size; h, at = FindHeader(id, next, t.End, size, readNoted) {
		// No frame begins inside the payload of another.
		t.End = min(at+h.Size, size)
		t.Frames++
		t.Durable = max(t.Durable, h.Durable())
		if t.Transactions += int(h.Transactions); h.Transactions > 0 {
			t.LastVersion = max(t.LastVersion, h.LastVersion())
		}
	}
	t.Used = t.End
	// From the end backward: preallocated rests are zeros for megabytes.
	for to := size; to > t.End && t.Used == t.End; to -= searchWindow {
		begin := max(t.End, to-searchWindow)
		if b := bytes.TrimRight(readNoted(begin, to-begin), "\x00"); len(b) > 0 {
			t.Used = begin + int64(len(b))
		}
	}
	return t, err
}

// FindHeader returns the first whole header of a frame of the file id that lies at from or behind and has
// the number next or a greater one, and where it is: at size if there is none. read returns n bytes
// at off, valid until its next call; nil if they can't be read.
func FindHeader(id checksum.Identity, next uint64, from, size int64, read func(off, n int64) []byte) (h Header, at int64) {
	// In most cases the next frame is where it is looked for, so the first window is one header.
	for window := int64(HeaderSize); from+HeaderSize <= size; window = searchWindow {
		b := read(from, min(window, size-from))
		if h, pos, ok := searchHeader(b, id, from, next); ok {
			return h, from + int64(pos)
		}
		// Windows overlap by less than a header.
		from += max(searchStep, min(window, size-from)-HeaderSize+searchStep) &^ (searchStep - 1)
	}
	return h, size
}

// searchHeader returns the first place in b, which lies at off of the file id, at which a frame's header
// is whole, and its number is next or more. Without one, pos is the first place where b has no whole
// header.
func searchHeader(b []byte, id checksum.Identity, off int64, next uint64) (h Header, pos int, ok bool) {
	for pos+HeaderSize <= len(b) {
		// Preallocated rests are zeros for megabytes: skip them by the page.
		if pos&4095 == 0 && pos+4096 <= len(b) && bytes.Equal(b[pos:pos+4096], zeros[:4096]) {
			pos += 4096
			continue
		}
		if looksLikeHeader(b[pos:]) {
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
