package backup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/brockdb/brock/internal/checksum"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/manifest"
)

// Info describes a stream: what the next increment has to know.
type Info struct {
	UUID    [16]byte
	Version entry.Version
	Milli   int64  // when that was the newest version, in Unix milliseconds
	Digest  Digest // of the stream
	Follows Digest // of the stream before; zero: it is full
	Bytes   int64  // of the stream
	Sent    int    // files whose bytes are in the stream
	Files   []File // of the store, at that version
	Part    *Part  // nil: the stream has all keyspaces
}

// StoreBytes returns the length of all files of the store.
func (i *Info) StoreBytes() (n int64) {
	for _, f := range i.Files {
		n += f.Size
	}
	return n
}

const (
	infoMagic   = "BROCKBKI"
	infoVersion = 1
	infoParted  = 2                                 // with a Part
	infoSealed  = 3                                 // of a stream with a Part that is not described
	infoFixed   = len(infoMagic) + 2 + 16 + 32 + 32 // before the numbers
	infoFile    = 1 + 1 + 4 + 1                     // bytes of a file, at least
)

// Encode returns bytes that DecodeInfo decodes to the same Info.
func (i *Info) Encode() []byte {
	p := append([]byte(nil), infoMagic...)
	version := uint16(infoVersion)
	switch {
	case i.Part != nil && i.Part.sealed:
		version = infoSealed
	case i.Part != nil:
		version = infoParted
	}
	p = binary.LittleEndian.AppendUint16(p, version)
	p = append(p, i.UUID[:]...)
	p = append(p, i.Digest[:]...)
	p = append(p, i.Follows[:]...)
	for _, n := range []uint64{uint64(i.Version), uint64(i.Milli), uint64(i.Bytes), uint64(i.Sent), uint64(len(i.Files))} {
		p = binary.AppendUvarint(p, n)
	}
	for _, f := range i.Files {
		p = append(p, byte(f.Name.Kind))
		p = binary.AppendUvarint(p, uint64(f.Name.Number))
		p = binary.LittleEndian.AppendUint32(p, f.Print)
		p = binary.AppendUvarint(p, uint64(f.Size))
	}
	if version == infoParted {
		for _, b := range [][]byte{i.Part.layout, i.Part.encode()} {
			p = binary.AppendUvarint(p, uint64(len(b)))
			p = append(p, b...)
		}
	}
	return binary.LittleEndian.AppendUint32(p, checksum.Plain(p))
}

// DecodeInfo decodes what Encode has returned. For other bytes it returns errs.ErrForeign,
// errs.ErrFormat or an *errs.Corruption. It keeps no part of p.
func DecodeInfo(p []byte) (*Info, error) {
	version, end, err := checkInfo(p)
	if err != nil {
		return nil, err
	}
	at := p[len(infoMagic)+2 : end]
	i := &Info{UUID: [16]byte(at), Digest: Digest(at[16:]), Follows: Digest(at[48:])}
	w := words{p: at[80:]}
	i.Version, i.Milli, i.Bytes, i.Sent = entry.Version(w.number()), int64(w.number()), int64(w.number()), int(w.number())
	if err := i.decodeFiles(&w); err != nil {
		return nil, err
	}
	switch version {
	case infoParted:
		if err := i.decodePart(&w); err != nil {
			return nil, err
		}
	case infoSealed:
		i.Part = &Part{sealed: true}
	}
	if w.short || len(w.p) > 0 || i.Bytes < 0 || i.Sent < 0 || i.Sent > len(i.Files) {
		return nil, damaged("numbers")
	}
	return i, nil
}

// decodeFiles reads the list of files.
func (i *Info) decodeFiles(w *words) error {
	n := w.number()
	if n > uint64(len(w.p)/infoFile) {
		return damaged("more files than there is room for")
	}
	i.Files = make([]File, n)
	for j := range i.Files {
		f := &i.Files[j]
		f.Name.Kind = filename.Kind(w.fixed(1)[0])
		f.Name.Number = entry.FileNum(w.number())
		f.Print = binary.LittleEndian.Uint32(w.fixed(4))
		f.Size = int64(w.number())
		if err := f.check(); err != nil || w.short {
			return damaged("list of files")
		}
	}
	return nil
}

func damaged(reason errStream) error {
	return errs.NewCorruption("description of a backup", -1, "%s", reason)
}

// checkInfo checks the checksum of a description, and returns the version and the offset of the
// checksum.
func checkInfo(p []byte) (version uint16, end int, err error) {
	if len(p) < len(infoMagic) || string(p[:len(infoMagic)]) != infoMagic {
		return 0, 0, foreign("these bytes don't describe a backup")
	}
	end = len(p) - sumSize
	if end < infoFixed || checksum.Plain(p[:end]) != binary.LittleEndian.Uint32(p[end:]) {
		return 0, 0, damaged("checksum")
	}
	version = binary.LittleEndian.Uint16(p[len(infoMagic):])
	if version < infoVersion || version > infoSealed {
		return 0, 0, fmt.Errorf("%w: the description of a backup has version %d, this release reads %d", errs.ErrFormat, version, infoSealed)
	}
	return version, end, nil
}

// decodePart reads which keyspaces the stream has.
func (i *Info) decodePart(w *words) error {
	var parts [2][]byte
	for j := range parts {
		n := w.number()
		if n > uint64(len(w.p)) {
			return damaged(errStream("cut"))
		}
		parts[j] = bytes.Clone(w.fixed(int(n)))
	}
	l, err := decodeLayout(parts[0])
	if err == nil {
		i.Part, err = decodePart(parts[1], l, parts[0])
	}
	var e errStream
	if errors.As(err, &e) {
		return damaged(e)
	}
	return err
}

// words reads numbers; short says that there were too few bytes.
type words struct {
	p     []byte
	short bool
}

func (w *words) number() uint64 {
	v, n := binary.Uvarint(w.p)
	if n <= 0 {
		w.p, w.short = nil, true
		return 0
	}
	w.p = w.p[n:]
	return v
}

func (w *words) fixed(n int) []byte {
	if len(w.p) < n {
		w.p, w.short = nil, true
		return make([]byte, n)
	}
	defer func() { w.p = w.p[n:] }()
	return w.p[:n]
}

// Part says which keyspaces a stream has, if these are not all.
type Part struct {
	Keyspaces []string // names, ascending; "" is the default keyspace
	Origins   []origin // of each run of the layout, newest first

	layout []byte // the edit that makes the layout
	sealed bool   // the store is encrypted: Encode leaves the Part out
}

// hasAll returns errs.ErrInvalid unless the stream has every keyspace of a later layout that was
// there before the stream was made.
func (p *Part) hasAll(now *layout.Layout) error {
	had, err := decodeLayout(p.layout)
	if err != nil {
		return err
	}
	lacks := func(k layout.Keyspace) bool { return uint64(k.ID) < had.NextKeyspace() && had.Keyspace(k.ID) == nil }
	if !slices.Contains(p.Keyspaces, "") || slices.ContainsFunc(now.Keyspaces(), lacks) {
		return p.hasOnly()
	}
	return nil
}

// hasOnly returns the error for an increment of all keyspaces after a stream of some.
func (p *Part) hasOnly() error {
	return fmt.Errorf("%w: the backup before has only the keyspaces %q", errs.ErrInvalid, p.Keyspaces)
}

// origin identifies a run of the store and the keyspaces that were taken of it (originOf).
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

// decodePart decodes what encode has returned. l is the layout of the stream, edit the bytes of
// its edit.
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
