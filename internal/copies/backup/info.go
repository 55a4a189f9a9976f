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
	infoHead    = len(infoMagic) + 2 + 16 + 32 + 32 + 4*8 // before the files
)

// Encode returns bytes that DecodeInfo decodes to the same Info.
func (i *Info) Encode() []byte {
	p := append(make([]byte, 0, infoHead+fileSize*len(i.Files)+sumSize), infoMagic...)
	p = binary.LittleEndian.AppendUint16(p, infoVersion)
	p = append(p, i.UUID[:]...)
	p = append(p, i.Digest[:]...)
	p = append(p, i.Follows[:]...)
	for _, n := range []uint64{uint64(i.Version), uint64(i.Milli), uint64(i.Bytes), uint64(i.Sent)} {
		p = binary.LittleEndian.AppendUint64(p, n)
	}
	for _, f := range i.Files {
		p = append(p, f.encodeFile(false)...)
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
	if end < infoHead || checksum.Plain(p[:end]) != binary.LittleEndian.Uint32(p[end:]) {
		return nil, damaged("checksum")
	}
	if v := binary.LittleEndian.Uint16(p[len(infoMagic):]); v != infoVersion {
		return nil, fmt.Errorf("%w: the description of a backup has version %d, this release reads %d", errs.ErrFormat, v, infoVersion)
	}
	at := p[len(infoMagic)+2:]
	number := func(n int) uint64 { return binary.LittleEndian.Uint64(at[80+8*n:]) }
	i := &Info{
		UUID: [16]byte(at), Digest: Digest(at[16:]), Follows: Digest(at[48:]),
		Version: entry.Version(number(0)), Milli: int64(number(1)), Bytes: int64(number(2)), Sent: int(number(3)),
	}
	files := p[infoHead:end]
	for ; len(files) >= fileSize; files = files[fileSize:] {
		f, kept, err := decodeFile(files[:fileSize])
		if err != nil || kept {
			return nil, damaged("list of files")
		}
		i.Files = append(i.Files, f)
	}
	if len(files) > 0 || i.Bytes < 0 || i.Sent < 0 || i.Sent > len(i.Files) {
		return nil, damaged("numbers")
	}
	return i, nil
}

// damaged reports a damaged description.
func damaged(reason errStream) error {
	return errs.NewCorruption("description of a backup", -1, "%s", reason)
}
