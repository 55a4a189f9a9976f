package backup

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
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
}

// StoreBytes returns the length of all files of the store.
func (i *Info) StoreBytes() (n int64) {
	for _, f := range i.Files {
		n += f.Size
	}
	return n
}

// byName returns the files by name; none if i is nil.
func (i *Info) byName() map[filename.Name]File {
	m := make(map[filename.Name]File)
	if i != nil {
		for _, f := range i.Files {
			m[f.Name] = f
		}
	}
	return m
}

const (
	infoMagic   = "BROCKBKI"
	infoVersion = 1
	infoFixed   = len(infoMagic) + 2 + 16 + 32 + 32 // before the numbers
	infoFile    = 1 + 1 + 4 + 1                     // bytes of a file, at least
)

// Encode returns bytes that DecodeInfo decodes to the same Info.
func (i *Info) Encode() []byte {
	p := append([]byte(nil), infoMagic...)
	p = binary.LittleEndian.AppendUint16(p, infoVersion)
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
	return binary.LittleEndian.AppendUint32(p, checksum.Plain(p))
}

// DecodeInfo decodes what Encode has returned. For other bytes it returns errs.ErrForeign,
// errs.ErrFormat or an *errs.Corruption. It keeps no part of p.
func DecodeInfo(p []byte) (*Info, error) {
	if !bytes.HasPrefix(p, []byte(infoMagic)) {
		return nil, foreign("these bytes don't describe a backup")
	}
	end := len(p) - sumSize
	if end < infoFixed || checksum.Plain(p[:end]) != binary.LittleEndian.Uint32(p[end:]) {
		return nil, damaged("checksum")
	}
	if v := binary.LittleEndian.Uint16(p[len(infoMagic):]); v != infoVersion {
		return nil, fmt.Errorf("%w: the description of a backup has version %d, this release reads %d", errs.ErrFormat, v, infoVersion)
	}
	at := p[len(infoMagic)+2 : end]
	i := &Info{UUID: [16]byte(at), Digest: Digest(at[16:]), Follows: Digest(at[48:])}
	w := words{p: at[80:]}
	i.Version, i.Milli, i.Bytes, i.Sent = entry.Version(w.number()), int64(w.number()), int64(w.number()), int(w.number())
	if err := i.decodeFiles(&w); err != nil {
		return nil, err
	}
	if w.short || len(w.p) > 0 || i.Bytes < 0 || i.Sent < 0 || i.Sent > len(i.Files) {
		return nil, damaged("numbers")
	}
	return i, nil
}

// decodeFiles reads the list of files.
func (i *Info) decodeFiles(w *words) error {
	n := w.number()
	// Before memory is taken: a damaged count could ask for any amount.
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
		if err := f.checkFile(); err != nil || w.short {
			return damaged("list of files")
		}
	}
	return nil
}

// damaged reports a damaged description.
func damaged(reason errStream) error {
	return errs.NewCorruption("description of a backup", -1, "%s", reason)
}

// words reads numbers; short says that there were too few bytes.
type words struct {
	p     []byte
	short bool // there were too few bytes; what was read then is zero
}

// number reads a varint.
func (w *words) number() uint64 {
	v, n := binary.Uvarint(w.p)
	if n <= 0 {
		w.p, w.short = nil, true
		return 0
	}
	w.p = w.p[n:]
	return v
}

// fixed reads n bytes; zeros if they are not there.
func (w *words) fixed(n int) []byte {
	if len(w.p) < n {
		w.p, w.short = nil, true
		return make([]byte, n)
	}
	defer func() { w.p = w.p[n:] }()
	return w.p[:n]
}
