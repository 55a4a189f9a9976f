package manifest

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/version/layout"
)

// field says how one field of a T is written and read.
type field[T any] struct {
	tag  uint16
	name string                        // as in docs/format.md
	put  func(dst []byte, v *T) []byte // appends the field as often as v has it
	get  func(w *wire, v *T)           // reads the value of one
	show func(w *wire) string          // reads it and says what it means
}

// fields are all fields of a T, in the order in which they are written.
type fields[T any] []field[T]

// must and may are the flags of fields: whether a reader that doesn't know the
// tag has to refuse the store.
const (
	must = tlvRequired
	may  = 0
)

// listField is a field that is written once for each element of a list of v.
func listField[T, E any](tag, flags uint16, name string, of func(*T) *[]E, put func([]byte, E) []byte, get func(*wire) E) field[T] {
	return field[T]{
		tag: tag, name: name,
		put: func(dst []byte, v *T) []byte {
			for _, e := range *of(v) {
				dst = appendTLV(dst, tag, flags, func(b []byte) []byte { return put(b, e) })
			}
			return dst
		},
		get:  func(w *wire, v *T) { l := of(v); *l = append(*l, get(w)) },
		show: func(w *wire) string { return fmt.Sprintf("%+v", get(w)) },
	}
}

// valueField is a field that is written unless its value in v is zero.
func valueField[T any, E comparable](tag, flags uint16, name string, of func(*T) *E, put func([]byte, E) []byte, get func(*wire) E) field[T] {
	f := parts(tag, flags, name,
		func(v *T) bool { return *of(v) != *new(E) },
		func(b []byte, v *T) []byte { return put(b, *of(v)) },
		func(w *wire, v *T) { *of(v) = get(w) })
	return f.shown(func(w *wire) string { return fmt.Sprint(get(w)) })
}

// parts is one field with several values of v, or with a whole list. It is written if there
// returns true.
func parts[T any](tag, flags uint16, name string, there func(*T) bool, put func([]byte, *T) []byte, get func(*wire, *T)) field[T] {
	return field[T]{
		tag: tag, name: name,
		put: func(dst []byte, v *T) []byte {
			if !there(v) {
				return dst
			}
			return appendTLV(dst, tag, flags, func(b []byte) []byte { return put(b, v) })
		},
		get: get,
	}
}

// shown returns f with another way to say what it means.
func (f field[T]) shown(show func(*wire) string) field[T] {
	f.show = show
	return f
}

// appendFields appends the fields of v, and those that only a later release knows.
func (fs fields[T]) appendFields(dst []byte, v *T, unknown []layout.TLV) []byte {
	for i := range fs {
		dst = fs[i].put(dst, v)
	}
	for _, u := range unknown {
		dst = appendTLV(dst, u.Tag, may, func(b []byte) []byte { return append(b, u.Value...) })
	}
	return dst
}

// readFields reads fields from w up to its end.
func (fs fields[T]) readFields(w *wire, v *T, unknown *[]layout.TLV) {
	for {
		tag, required, value, more := w.tlv()
		if !more {
			return
		}
		if err := fs.readOne(v, unknown, tag, required, value); err != nil {
			// No further field: the first error says what is wrong.
			w.err, w.p = fmt.Errorf("field %d: %w", tag, err), nil
		}
	}
}

// readOne reads the value of one field. It keeps a field that this release
// doesn't know, unless it is required.
func (fs fields[T]) readOne(v *T, unknown *[]layout.TLV, tag uint16, required bool, value []byte) error {
	for i := range fs { // so few that a map would be slower
		if fs[i].tag == tag {
			w := wire{p: value}
			fs[i].get(&w, v)
			return w.endError()
		}
	}
	// A release that skipped this field would misunderstand the store.
	if required {
		return fmt.Errorf("%w: the manifest has field %d of a later release, which must be understood", errs.ErrFormat, tag)
	}
	// It is written again with each snapshot, so a store may go back to an older
	// release and lose nothing.
	*unknown = append(*unknown, layout.TLV{Tag: tag, Value: slices.Clone(value)})
	return nil
}

func putNumber[N ~uint64 | ~uint32](b []byte, n N) []byte { return binary.AppendUvarint(b, uint64(n)) }
func getNumber[N ~uint64](w *wire) N                      { return N(w.uvarint()) }
func getNumber32[N ~uint32](w *wire) N                    { return N(w.uint32()) }
func putSigned[N ~int64](b []byte, n N) []byte            { return binary.AppendVarint(b, int64(n)) }
func getSigned[N ~int64](w *wire) N                       { return N(w.varint()) }

func putBytes[S ~string | ~[]byte](b []byte, s S) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func putNumbers(b []byte, numbers ...uint64) []byte {
	for _, n := range numbers {
		b = binary.AppendUvarint(b, n)
	}
	return b
}
