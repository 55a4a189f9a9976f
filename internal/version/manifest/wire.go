package manifest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
)

// How the values of an edit are decoded, and how fields are told apart.

// errEdit says that bytes are not an edit; the wrapping error says why.
var errEdit = errors.New("bad edit")

// wire decodes values from the front of a byte slice. After the first error it
// returns zeros, so that a decoder checks err once, at its end.
type wire struct {
	p   []byte
	err error
}

// fail notes the first error, and drops what is left, so that loops over it end.
func (w *wire) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("%w: %s", errEdit, fmt.Sprintf(format, args...))
	}
	w.p = nil
}

// byte reads one byte.
func (w *wire) byte() byte {
	if len(w.p) == 0 {
		w.fail("a byte is missing")
		return 0
	}
	b := w.p[0]
	w.p = w.p[1:]
	return b
}

// uvarint reads an unsigned number of 1 to 10 bytes.
func (w *wire) uvarint() uint64 {
	v, n := binary.Uvarint(w.p)
	if n <= 0 {
		w.fail("bad number")
		return 0
	}
	w.p = w.p[n:]
	return v
}

func (w *wire) uint32() uint32 {
	v := w.uvarint()
	if v > math.MaxUint32 {
		w.fail("number %d is over 32 bits", v)
		return 0
	}
	return uint32(v)
}

// offset reads an offset in a file.
func (w *wire) offset() int64 {
	v := w.uvarint()
	if v > math.MaxInt64 {
		w.fail("offset %d", v)
	}
	return int64(v)
}

func (w *wire) version() entry.Version {
	v := entry.Version(w.uvarint())
	if v > entry.MaxVersion {
		w.fail("version %d", v)
		return 0
	}
	return v
}

func (w *wire) varint() int64 {
	v, n := binary.Varint(w.p)
	if n <= 0 {
		w.fail("bad number")
		return 0
	}
	w.p = w.p[n:]
	return v
}

// readBytes returns a copy: edits outlive the buffer that they were read from.
func (w *wire) readBytes() []byte {
	n := w.uvarint()
	if n > uint64(len(w.p)) {
		w.fail("%d bytes announced, %d are left", n, len(w.p))
		return nil
	}
	b := w.p[:n]
	w.p = w.p[n:]
	return slices.Clone(b)
}

// nextBytes returns the next n bytes, which the caller must copy.
func (w *wire) nextBytes(n int) []byte {
	if n > len(w.p) {
		w.fail("%d bytes are missing", n-len(w.p))
		return nil
	}
	b := w.p[:n]
	w.p = w.p[n:]
	return b
}

// readCount reads how many elements follow, of at least min bytes each. So a damaged
// count can't make the caller allocate more than a few times the field's length.
func (w *wire) readCount(min int) int {
	n := w.uvarint()
	if n > uint64(len(w.p)/min) {
		w.fail("%d elements announced, %d bytes are left", n, len(w.p))
		return 0
	}
	return int(n)
}

// endError returns the first error. Bytes that are left over are an error.
func (w *wire) endError() error {
	if w.err == nil && len(w.p) != 0 {
		w.fail("%d bytes too many", len(w.p))
	}
	return w.err
}

const (
	tlvHeader   = 8
	tlvRequired = 1 // flag: a reader that doesn't know the tag must not go on
)

// appendTLV appends a field whose value is written by fill.
func appendTLV(dst []byte, tag uint16, flags uint16, fill func([]byte) []byte) []byte {
	dst = binary.LittleEndian.AppendUint16(dst, tag)
	dst = binary.LittleEndian.AppendUint16(dst, flags)
	at := len(dst)
	dst = fill(append(dst, 0, 0, 0, 0))
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}

// tlv takes the next field off w; more is false at the end and after an error.
func (w *wire) tlv() (tag uint16, required bool, value []byte, more bool) {
	if w.err != nil || len(w.p) == 0 {
		return 0, false, nil, false
	}
	if len(w.p) < tlvHeader {
		if allZero(w.p) {
			return 0, false, nil, false // padding of the frame
		}
		w.fail("%d bytes are too short for a field", len(w.p))
		return 0, false, nil, false
	}
	tag = binary.LittleEndian.Uint16(w.p)
	flags := binary.LittleEndian.Uint16(w.p[2:])
	n := binary.LittleEndian.Uint32(w.p[4:])
	if flags&^tlvRequired != 0 {
		w.fail("field %d has unknown flags %#x", tag, flags)
		return 0, false, nil, false
	}
	if uint64(n) > uint64(len(w.p)-tlvHeader) {
		w.fail("field %d of %d bytes, %d are left", tag, n, len(w.p)-tlvHeader)
		return 0, false, nil, false
	}
	value = w.p[tlvHeader : tlvHeader+int(n)]
	w.p = w.p[tlvHeader+int(n):]
	return tag, flags&tlvRequired != 0, value, true
}
