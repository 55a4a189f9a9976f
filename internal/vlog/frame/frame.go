// Package frame encodes and decodes frames, the checksummed units of segments and manifests.
// Elsewhere they are called log records, blocks or batches: one frame holds the records of a
// whole commit group. A frame has a header, which says what the frame is and names the frame
// before it, and a payload. docs/format.md, "Frame", has the layout, and says which bytes of
// the payload the frame's checksum covers.
//
// The package works on bytes only. It opens no file. Its callers know which frames were durable,
// so they decide whether a missing frame is damage.
package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
)

// HeaderSize is the length of a frame's header; the payload follows it.
const HeaderSize = 48

// MaxSize is the greatest length of a frame, header included.
const MaxSize int64 = 8 * math.MaxUint32

// Kind says what a frame's payload is.
type Kind uint8

// The kinds. The numbers are part of the format.
const (
	Group    Kind = 1 // segment: whole transactions, or values
	Seal     Kind = 2 // segment: its totals; no frame follows
	Snapshot Kind = 3 // manifest: the whole layout; it is the first frame, and no other
	Edit     Kind = 4 // manifest: a step from one layout to the next
)

// String is the kind in one word, for messages and dumps.
func (k Kind) String() string {
	names := [...]string{Group: "group", Seal: "seal", Snapshot: "snapshot", Edit: "edit"}
	if int(k) < len(names) && k != 0 {
		return names[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

func (k Kind) isKnown() bool { return k >= Group && k <= Edit }

// ErrFrame says that bytes are not the frame that was expected; the wrapping error says why.
var ErrFrame = errors.New("bad frame")

// Header is a frame's header.
type Header struct {
	Sum          uint32 // of the header; set by Put and Decode
	PayloadSum   uint32 // of the payload, masked
	Size         int64  // of the frame with its header, a multiple of 8
	Kind         Kind
	Transactions uint16        // of a Group
	Records      uint32        // of a Group
	Chain        uint32        // Sum of the frame before; 0: there is none
	FirstVersion entry.Version // lowest version of its records; 0: it has none
	Number       uint64        // in the chain, from 1 on
	// frames before this one that were not known to be durable when it was written
	Unsynced uint32
	// versions right before FirstVersion that no commit has, as FirstVersion was given; the lowest 32
	// bits of their number
	Skipped uint32
	Last    entry.Version // greatest version of its records; 0 until its payload was verified

	Encrypted bool
	Tag       crypt.Tag // of an encrypted frame: set when it was encrypted or decrypted
}

const (
	flagUnknown   = 0xe0 // a reader must know these; bits 0 to 3 may be skipped
	flagEncrypted = 1 << 4
)

// PayloadSize is the length of the payload.
func (h *Header) PayloadSize() int64 { return h.Size - HeaderSize }

// Durable is the greatest frame number that this frame proves to have been
// durable when it was written; 0 is none.
func (h *Header) Durable() uint64 {
	// MaxUint32 stands for that many frames or more, so it proves nothing.
	if h.Unsynced == math.MaxUint32 || uint64(h.Unsynced) >= h.Number {
		return 0
	}
	return h.Number - uint64(h.Unsynced) - 1
}

// LastVersion is the greatest version of a Group of the journal or, before its payload was verified,
// the least that this can be.
func (h *Header) LastVersion() entry.Version {
	if h.Last != 0 {
		return h.Last
	}
	return h.FirstVersion + max(entry.Version(h.Transactions), 1) - 1
}

// Follows reports whether no commit is missing between the version last and this Group: last is that
// of the commit before, or a greater one.
func (h *Header) Follows(last entry.Version) bool {
	before := h.FirstVersion - 1 - entry.Version(h.Skipped)
	// Of a longer jump, before is too great by a multiple of 2^32.
	return h.FirstVersion == 0 || last >= before || h.Skipped != 0 && uint32(last) == uint32(before)
}

// Put writes h to the first HeaderSize bytes of dst, for a frame at offset of
// the file id, and sets h.Sum.
func (h *Header) Put(dst []byte, id checksum.Identity, offset int64) {
	dst = dst[:HeaderSize]
	binary.LittleEndian.PutUint32(dst[4:], h.PayloadSum)
	binary.LittleEndian.PutUint32(dst[8:], uint32(h.Size/8))
	dst[12], dst[13] = byte(h.Kind), 0
	if h.Encrypted {
		dst[13] = flagEncrypted
	}
	binary.LittleEndian.PutUint16(dst[14:], h.Transactions)
	binary.LittleEndian.PutUint32(dst[16:], h.Records)
	binary.LittleEndian.PutUint32(dst[20:], h.Chain)
	binary.LittleEndian.PutUint64(dst[24:], uint64(h.FirstVersion))
	binary.LittleEndian.PutUint64(dst[32:], h.Number)
	binary.LittleEndian.PutUint32(dst[40:], h.Unsynced)
	binary.LittleEndian.PutUint32(dst[44:], h.Skipped)
	// The sum covers all of the header but itself, so it comes last.
	h.Sum = id.Sum(offset, dst[4:])
	binary.LittleEndian.PutUint32(dst, h.Sum)
}

// Decode reads the header at the start of src, which lies at offset of the file
// id. It checks the header's checksum before anything else; it does not compare the
// length with what the file has. It returns errs.ErrFormat for a frame that only a
// later release can read, and ErrFrame for all else.
func Decode(src []byte, id checksum.Identity, offset int64) (Header, error) {
	if len(src) < HeaderSize {
		return Header{}, fmt.Errorf("%w: %d bytes are too short for a header", ErrFrame, len(src))
	}
	src = src[:HeaderSize]
	sum := binary.LittleEndian.Uint32(src)
	if got := id.Sum(offset, src[4:]); got != sum {
		return Header{}, fmt.Errorf("%w: header checksum is %08x, want %08x", ErrFrame, got, sum)
	}
	h := Header{
		Sum:          sum,
		PayloadSum:   binary.LittleEndian.Uint32(src[4:]),
		Size:         8 * int64(binary.LittleEndian.Uint32(src[8:])),
		Kind:         Kind(src[12]),
		Transactions: binary.LittleEndian.Uint16(src[14:]),
		Records:      binary.LittleEndian.Uint32(src[16:]),
		Chain:        binary.LittleEndian.Uint32(src[20:]),
		FirstVersion: entry.Version(binary.LittleEndian.Uint64(src[24:])),
		Number:       binary.LittleEndian.Uint64(src[32:]),
		Unsynced:     binary.LittleEndian.Uint32(src[40:]),
		Skipped:      binary.LittleEndian.Uint32(src[44:]),
		Encrypted:    src[13]&flagEncrypted != 0,
	}
	// The checksum is right, so this is what was written: by us, or by a later release.
	if h.Size < HeaderSize || h.Number == 0 || h.FirstVersion > entry.MaxVersion || h.Skipped != 0 && entry.Version(h.Skipped) >= h.FirstVersion {
		return h, fmt.Errorf("%w: %v of %d bytes, number %d, version %d", ErrFrame, h.Kind, h.Size, h.Number, h.FirstVersion)
	}
	if !h.Kind.isKnown() || src[13]&flagUnknown != 0 {
		// Not ErrFrame: recovery would take the frame of a newer release for a torn tail, and cut
		// it.
		return h, fmt.Errorf("%w: frame of %v, flags %#x", errs.ErrFormat, h.Kind, src[13])
	}
	return h, nil
}

// looksLikeHeader reports quickly whether a header might begin at src, which must have
// HeaderSize bytes. It is true for every header that Put wrote. A search tests it first, and so
// computes the checksum of few places only.
func looksLikeHeader(src []byte) bool {
	return Kind(src[12]).isKnown() && src[13]&flagUnknown == 0 && src[31] == 0 && binary.LittleEndian.Uint64(src[32:]) != 0
}
