package manifest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
)

// How the values of an edit are encoded, and how fields are told apart.

// errEdit says that bytes are not an edit; the wrapping error says why.
var errEdit = errors.New("bad edit")

// wire writes values to the end of a byte slice, or reads them from its front. So one function
// for each type says how it is written and how it is read. What is written may be shared, and is
// never changed. After the first error wire reads zeros, so that a decoder checks err once, at its
// end.
type wire struct {
	p       []byte // what was written, or what is left to read
	err     error
	writing bool
}

// failRead notes the first error, and drops what is left, so that loops over it end. What can't be right
// is written nevertheless: Apply has to refuse it, and every reader does.
func (w *wire) failRead(format string, args ...any) {
	if w.writing {
		return
	}
	if w.err == nil {
		w.err = fmt.Errorf("%w: %s", errEdit, fmt.Sprintf(format, args...))
	}
	w.p = nil
}

// codeNumber is an unsigned number of 1 to 10 bytes, which must fit in N.
func codeNumber[N ~uint64 | ~uint32 | ~uint8 | ~int64](w *wire, n *N) {
	if w.writing {
		w.p = binary.AppendUvarint(w.p, uint64(*n))
		return
	}
	v, size := binary.Uvarint(w.p)
	if size <= 0 {
		w.failRead("bad number")
		return
	}
	if *n = N(v); *n < 0 || uint64(*n) != v {
		*n = 0
		w.failRead("number %d is too great", v)
		return
	}
	w.p = w.p[size:]
}

// codeNumbers are numbers of one type.
func codeNumbers[N ~uint64 | ~uint32 | ~uint8 | ~int64](w *wire, all ...*N) {
	for _, n := range all {
		codeNumber(w, n)
	}
}

// codeSigned is a number that may be negative.
func codeSigned[N ~int64](w *wire, n *N) {
	if w.writing {
		w.p = binary.AppendVarint(w.p, int64(*n))
		return
	}
	v, size := binary.Varint(w.p)
	if size <= 0 {
		w.failRead("bad number")
		return
	}
	*n, w.p = N(v), w.p[size:]
}

// codeFlag is a signed number, 0 or 1.
func codeFlag(w *wire, set *bool) {
	n := int64(0)
	if *set {
		n = 1
	}
	if codeSigned(w, &n); n>>1 != 0 {
		w.failRead("flag %d", n)
	}
	if !w.writing {
		*set = n == 1
	}
}

func codeVersion(w *wire, v *entry.Version) {
	if codeNumber(w, v); *v > entry.MaxVersion {
		w.failRead("version %d", *v)
	}
}

// codeBytes is bytes whose number the format knows.
func (w *wire) codeBytes(b []byte) {
	switch {
	case w.writing:
		w.p = append(w.p, b...)
	case len(b) > len(w.p):
		w.failRead("%d bytes are missing", len(b)-len(w.p))
	default:
		w.p = w.p[copy(b, w.p):]
	}
}

// codeOctet is a number of one byte.
func codeOctet[N ~uint8](w *wire, n *N) {
	b := [1]byte{byte(*n)}
	if w.codeBytes(b[:]); !w.writing {
		*n = N(b[0])
	}
}

// codeString is any number of bytes. What is read is a copy: edits outlive the buffer that they were
// read from.
func codeString[S ~string | ~[]byte](w *wire, s *S) {
	n := len(*s)
	if w.codeCount(&n, 1); w.writing {
		w.p = append(w.p, *s...)
		return
	}
	*s = S(slices.Clone(w.p[:n]))
	w.p = w.p[n:]
}

// codeCount is how many elements follow, of at least least bytes each. So a damaged count can't make
// the caller allocate more than a few times the field's length.
func (w *wire) codeCount(count *int, least int) {
	n := uint64(*count)
	if codeNumber(w, &n); w.writing {
		return
	}
	if n > uint64(len(w.p)/least) {
		w.failRead("%d elements announced, %d bytes are left", n, len(w.p))
		n = 0
	}
	*count = int(n)
}

// codeList is a list of elements of at least least bytes each.
func codeList[E any](w *wire, l *[]E, least int, code func(*wire, *E)) {
	n := len(*l)
	if w.codeCount(&n, least); !w.writing {
		*l = make([]E, n)
	}
	for i := range *l {
		code(w, &(*l)[i])
	}
}

func codeKeyID(w *wire, l *crypt.FileKeyID) {
	p := appendKeyID(nil, *l)
	if w.codeBytes(p); !w.writing {
		*l = decodeKeyID(p)
	}
}

// lastKeyID is a file key id at the end of a field, where that of a plain file is left out. It
// reports whether there is one.
func lastKeyID(w *wire, l *crypt.FileKeyID) bool {
	there := w.writing && !l.IsZero() || !w.writing && len(w.p) > 0
	if there {
		codeKeyID(w, l)
	}
	return there
}

// endError returns the first error. Bytes that are left over are an error.
func (w *wire) endError() error {
	if w.err == nil && len(w.p) != 0 {
		w.failRead("%d bytes too many", len(w.p))
	}
	return w.err
}

const tlvHeader = 8

// The flags of fields: whether a reader that doesn't know the tag must refuse the store.
const (
	may  = 0
	must = 1
)

// writeTLV appends a field whose value is written by fill.
func (w *wire) writeTLV(tag uint16, flags uint16, fill func()) {
	w.p = binary.LittleEndian.AppendUint16(w.p, tag)
	w.p = binary.LittleEndian.AppendUint16(w.p, flags)
	at := len(w.p)
	w.p = append(w.p, 0, 0, 0, 0)
	fill()
	binary.LittleEndian.PutUint32(w.p[at:], uint32(len(w.p)-at-4))
}

// nextTLV takes the next field off w; more is false at the end and after an error.
func (w *wire) nextTLV() (tag uint16, required bool, value []byte, more bool) {
	if len(w.p) < tlvHeader && allZero(w.p) { // padding of the frame
		return 0, false, nil, false
	}
	var head [tlvHeader]byte
	w.codeBytes(head[:])
	tag, flags, n := binary.LittleEndian.Uint16(head[:]), binary.LittleEndian.Uint16(head[2:]), binary.LittleEndian.Uint32(head[4:])
	switch {
	case flags > must:
		w.failRead("field %d has unknown flags %#x", tag, flags)
	case uint64(n) > uint64(len(w.p)):
		w.failRead("field %d of %d bytes, %d are left", tag, n, len(w.p))
	case w.err == nil:
		value, w.p = w.p[:n], w.p[n:]
		return tag, flags == must, value, true
	}
	return 0, false, nil, false
}
