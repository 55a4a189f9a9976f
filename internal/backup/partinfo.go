package backup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/manifest"
)

// Part says which keyspaces a stream has, if these are not all.
type Part struct {
	Keyspaces []string // names, ascending; "" is the default keyspace
	Origins   []origin // of each run of the layout, newest first

	layout []byte // the edit that makes the layout
}

// origin names a run of the store and the keyspaces that were taken of it.
type origin [16]byte

// encode makes the payload of a record.
func (p *Part) encode() []byte {
	b := binary.AppendUvarint(nil, uint64(len(p.Keyspaces)))
	for _, name := range p.Keyspaces {
		b = binary.AppendUvarint(b, uint64(len(name)))
		b = append(b, name...)
	}
	for _, o := range p.Origins {
		b = append(b, o[:]...)
	}
	return b
}

// decodePart reads what encode has made for a layout, whose edit is given, too.
func decodePart(b []byte, l *layout.Layout, edit []byte) (*Part, error) {
	w := words{p: b}
	p := &Part{layout: edit}
	for n := w.number(); n > 0 && !w.short; n-- {
		size := w.number()
		if size > layout.MaxKeyspaceName {
			return nil, errStream("name of a keyspace")
		}
		p.Keyspaces = append(p.Keyspaces, string(w.fixed(int(size))))
	}
	for range l.Runs() {
		p.Origins = append(p.Origins, origin(w.fixed(len(origin{}))))
	}
	named := 0
	for i, name := range p.Keyspaces {
		if i > 0 && name <= p.Keyspaces[i-1] {
			return nil, errStream("keyspaces out of order")
		}
		if name != "" {
			named++
		}
	}
	if w.short || len(w.p) > 0 || len(p.Keyspaces) == 0 || named != len(l.Keyspaces()) {
		return nil, errStream("list of keyspaces")
	}
	for _, k := range l.Keyspaces() {
		if _, found := slices.BinarySearch(p.Keyspaces, k.Name); !found {
			return nil, errStream("a keyspace that is not listed")
		}
	}
	return p, nil
}

// decodeLayout returns errs.ErrFormat for a layout of a later release.
func decodeLayout(edit []byte) (*layout.Layout, error) {
	e, err := manifest.DecodeEdit(edit)
	if errors.Is(err, errs.ErrFormat) {
		return nil, err
	}
	var l *layout.Layout
	if err == nil {
		l, err = layout.New().Apply(e)
	}
	if err != nil {
		return nil, errStream("layout: " + err.Error())
	}
	return l, nil
}

// sameKeyspaces returns errs.ErrInvalid unless the stream before has the keyspaces of the
// one that is made.
func (o *Options) sameKeyspaces() error {
	switch before := o.Since.Part; {
	case before == nil && len(o.Keyspaces) == 0:
		return nil
	case before == nil:
		return fmt.Errorf("%w: the backup before has all keyspaces", errs.ErrInvalid)
	case len(o.Keyspaces) == 0:
		return fmt.Errorf("%w: the backup before has only the keyspaces %q", errs.ErrInvalid, before.Keyspaces)
	case !slices.Equal(before.Keyspaces, o.keyspaces()):
		return fmt.Errorf("%w: the backup before has the keyspaces %q", errs.ErrInvalid, before.Keyspaces)
	}
	return nil
}
