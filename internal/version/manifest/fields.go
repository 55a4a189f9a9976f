package manifest

import (
	"fmt"
	"slices"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/version/layout"
)

// field says how one field of a T is written and read.
type field[T any] struct {
	tag   uint16
	flags uint16
	name  string                         // as in docs/format.md
	count func(v *T) int                 // how often v has it
	code  func(w *wire, v *T, i int)     // writes the i-th one, or reads one more
	show  func(w *wire) (meaning string) // reads one and says what it means
}

// fields are all fields of a T, in the order in which they are written.
type fields[T any] []field[T]

// listField is a field that is written once for each element of a list of v.
func listField[T, E any](tag, flags uint16, name string, of func(*T) *[]E, code func(*wire, *E)) field[T] {
	return field[T]{
		tag: tag, flags: flags, name: name,
		count: func(v *T) int { return len(*of(v)) },
		code: func(w *wire, v *T, i int) {
			l := of(v)
			if i == len(*l) {
				*l = append(*l, *new(E))
			}
			code(w, &(*l)[i])
		},
		show: func(w *wire) string { var e E; code(w, &e); return fmt.Sprintf("%+v", e) },
	}
}

// valueField is a field that is written unless its value in v is zero.
func valueField[T any, E comparable](tag, flags uint16, name string, of func(*T) *E, code func(*wire, *E)) field[T] {
	f := partsField(tag, flags, name, func(v *T) bool { return *of(v) != *new(E) }, func(w *wire, v *T) { code(w, of(v)) })
	f.show = func(w *wire) string { var e E; code(w, &e); return fmt.Sprint(e) }
	return f
}

// partsField is one field with several values of v, or with a whole list. It is written if there
// returns true.
func partsField[T any](tag, flags uint16, name string, there func(*T) bool, code func(*wire, *T)) field[T] {
	return field[T]{
		tag: tag, flags: flags, name: name,
		count: func(v *T) int {
			if there(v) {
				return 1
			}
			return 0
		},
		code: func(w *wire, v *T, _ int) { code(w, v) },
	}
}

// codeFields writes or reads the fields of v, up to the end of w, and those that only a later release
// knows.
func (fs fields[T]) codeFields(w *wire, v *T, unknown *[]layout.TLV) {
	if !w.writing {
		fs.readFields(w, v, unknown)
		return
	}
	for i := range fs {
		for n := range fs[i].count(v) {
			w.writeTLV(fs[i].tag, fs[i].flags, func() { fs[i].code(w, v, n) })
		}
	}
	for _, u := range *unknown {
		w.writeTLV(u.Tag, may, func() { w.codeBytes(u.Value) })
	}
}

// readFields reads fields from w up to its end.
func (fs fields[T]) readFields(w *wire, v *T, unknown *[]layout.TLV) {
	for {
		tag, required, value, more := w.nextTLV()
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
			fs[i].code(&w, v, fs[i].count(v))
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
