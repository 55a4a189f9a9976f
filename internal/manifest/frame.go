package manifest

import (
	"encoding/binary"
	"fmt"

	"github.com/brockdb/brock/internal/checksum"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
)

const (
	fileMagic     = "BROCKMAN"
	fileVersion   = 1
	fileHeader    = 64
	fileSumAt     = 60
	frameHeader   = 32
	frameSnapshot = 1 // replaces all before it
	frameEdit     = 2
)

func manifestIdentity(uuid [16]byte, num entry.FileNum) checksum.Identity {
	return checksum.New(uuid, byte(filename.Manifest), uint64(num))
}

// encodeFileHeader begins the manifest num; its checksum is the chain's first link.
func encodeFileHeader(uuid [16]byte, num, previous entry.FileNum) []byte {
	p := make([]byte, fileHeader)
	le := binary.LittleEndian
	copy(p, fileMagic)
	le.PutUint16(p[8:], fileVersion)
	le.PutUint16(p[10:], fileHeader)
	le.PutUint64(p[16:], uint64(num))
	copy(p[24:40], uuid[:])
	le.PutUint64(p[40:], uint64(previous))
	le.PutUint32(p[fileSumAt:], manifestIdentity(uuid, num).Sum(0, p[:fileSumAt]))
	return p
}

func decodeFileHeader(p []byte, uuid [16]byte, num entry.FileNum) (chain uint32, err error) {
	name := filename.Of(filename.Manifest, num)
	le := binary.LittleEndian
	if len(p) < fileHeader {
		return 0, errs.NewCorruption(name, 0, "%d bytes are too short for a header", len(p))
	}
	chain = le.Uint32(p[fileSumAt:])
	if chain != manifestIdentity(uuid, num).Sum(0, p[:fileSumAt]) {
		reason := "the header's checksum is wrong"
		if string(p[:8]) == fileMagic && [16]byte(p[24:40]) != uuid {
			reason = "the file belongs to another store"
		}
		return 0, errs.NewCorruption(name, 0, "%s", reason)
	}
	if v, size := le.Uint16(p[8:]), le.Uint16(p[10:]); v != fileVersion || size != fileHeader || le.Uint32(p[12:]) != 0 {
		return 0, fmt.Errorf("%w: %s has version %d, this release reads %d", errs.ErrFormat, name, v, fileVersion)
	}
	return chain, nil
}

// encodeFrame makes the frame with this number for the offset; chain is the
// checksum of the header before it. It returns the frame's own checksum too.
func encodeFrame(id checksum.Identity, offset int64, number uint64, chain uint32, kind uint32, e *Edit) (p []byte, sum uint32) {
	p = AppendEdit(make([]byte, frameHeader, 512), e)
	le := binary.LittleEndian
	le.PutUint32(p[8:], uint32(len(p)-frameHeader))
	le.PutUint32(p[12:], chain)
	le.PutUint64(p[16:], number)
	le.PutUint32(p[24:], kind)
	for len(p)%8 != 0 {
		p = append(p, 0)
	}
	le.PutUint32(p[4:], id.Sum(offset+frameHeader, p[frameHeader:]))
	sum = id.Sum(offset, p[4:frameHeader])
	le.PutUint32(p, sum)
	return p, sum
}

// frame is a frame found in a file; its payload points into what was scanned.
type frame struct {
	sum     uint32
	chain   uint32
	number  uint64
	kind    uint32
	size    int64 // of the whole frame
	payload []byte
}

// decodeHeader decodes the header at off; ok is false if it isn't valid there.
func decodeHeader(id checksum.Identity, file []byte, off int64) (f frame, ok bool) {
	if int64(len(file))-off < frameHeader {
		return frame{}, false
	}
	p, le := file[off:], binary.LittleEndian
	f.sum = le.Uint32(p)
	if f.sum != id.Sum(off, p[4:frameHeader]) {
		return frame{}, false
	}
	f.chain, f.number, f.kind = le.Uint32(p[12:]), le.Uint64(p[16:]), le.Uint32(p[24:])
	f.size = (frameHeader + int64(le.Uint32(p[8:])) + 7) &^ 7
	return f, true
}

// decodeFrame decodes the whole frame at off.
func decodeFrame(id checksum.Identity, file []byte, off int64) (f frame, ok bool) {
	f, ok = decodeHeader(id, file, off)
	if !ok || f.size > int64(len(file))-off {
		return frame{}, false
	}
	body := file[off+frameHeader : off+f.size]
	if binary.LittleEndian.Uint32(file[off+4:]) != id.Sum(off+frameHeader, body) {
		return frame{}, false
	}
	f.payload = body[:binary.LittleEndian.Uint32(file[off+8:])]
	return f, true
}

// tail is where the valid frames of a manifest end.
type tail struct {
	offset int64
	number uint64 // of the last frame
	chain  uint32 // its checksum
}

// scan walks the frames of the manifest num. An invalid frame ends the walk as
// a torn tail only if nothing shows that frames were written after it: each
// frame was synced before the next, so a valid one behind it, or an end that
// SUPER recorded, means that the frame was whole once and is damaged.
func scan(file []byte, super *Super, fn func(off int64, f frame) error) (tail, error) {
	num := super.Manifest
	name, id := filename.Of(filename.Manifest, num), manifestIdentity(super.UUID, num)
	chain, err := decodeFileHeader(file, super.UUID, num)
	if err != nil {
		return tail{}, err
	}
	t := tail{offset: fileHeader, chain: chain}
	for t.offset < int64(len(file)) {
		f, ok := decodeFrame(id, file, t.offset)
		if !ok {
			if at := laterFrame(id, file, t); at >= 0 {
				return t, errs.NewCorruption(name, t.offset, "frame %d is damaged: a later frame follows at %d", t.number+1, at)
			}
			break
		}
		if f.number != t.number+1 || f.chain != t.chain {
			return t, errs.NewCorruption(name, t.offset, "frame %d does not continue frame %d", f.number, t.number)
		}
		if err := fn(t.offset, f); err != nil {
			return t, err
		}
		t = tail{offset: t.offset + f.size, number: f.number, chain: f.sum}
	}
	if t.offset < int64(super.End) || t.number < super.EndFrame {
		return t, errs.NewCorruption(name, t.offset, "the valid frames end here with frame %d; frame %d was known to end at %d",
			t.number, super.EndFrame, super.End)
	}
	if t.number == 0 {
		return t, errs.NewCorruption(name, t.offset, "the snapshot at the beginning is damaged")
	}
	return t, nil
}

// laterFrame finds the header of a frame behind the damaged one after t; -1: none.
func laterFrame(id checksum.Identity, file []byte, t tail) int64 {
	for off := t.offset + 8; off+frameHeader <= int64(len(file)); off += 8 {
		f, ok := decodeHeader(id, file, off)
		if ok && f.number > t.number && f.number-t.number <= uint64(off-t.offset) {
			return off
		}
	}
	return -1
}
