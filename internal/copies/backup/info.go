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
	Description
	Files []File // of the store, at that version
}

// Description is Info without the files. Its encoding has these fields, one after the other.
type Description struct {
	UUID    [16]byte
	Digest  Digest // of the stream
	Follows Digest // of the stream before; zero: it is full
	Version entry.Version
	Milli   int64 // when that was the newest version, in Unix milliseconds
	Bytes   int64 // of the stream
	Sent    int64 // files whose bytes are in the stream
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
	p := binary.LittleEndian.AppendUint16([]byte(infoMagic), infoVersion)
	p = append(p, encodeFields(&i.Description)...)
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
		return nil, damagedInfo("checksum")
	}
	if v := binary.LittleEndian.Uint16(p[len(infoMagic):]); v != infoVersion {
		return nil, fmt.Errorf("%w: the description of a backup has version %d, this release reads %d", errs.ErrFormat, v, infoVersion)
	}
	i := new(Info)
	decodeFields(p[len(infoMagic)+2:], &i.Description)
	files := p[infoHead:end]
	for ; len(files) >= fileSize; files = files[fileSize:] {
		f, kept, ok := decodeFile(files)
		if !ok || kept {
			return nil, damagedInfo("list of files")
		}
		i.Files = append(i.Files, f)
	}
	if len(files) > 0 || i.Bytes < 0 || i.Sent < 0 || i.Sent > int64(len(i.Files)) {
		return nil, damagedInfo("numbers")
	}
	return i, nil
}

// damagedInfo reports a damaged description.
func damagedInfo(reason string) error {
	return errs.NewCorruption("description of a backup", -1, "%s", reason)
}
