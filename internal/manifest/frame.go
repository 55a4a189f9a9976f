package manifest

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/brockdb/brock/internal/checksum"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/frame"
	"github.com/brockdb/brock/internal/layout"
)

const (
	fileMagic   = "BROCKMAN"
	fileVersion = 2
	fileHeader  = 64
	fileSumAt   = 60
)

func manifestIdentity(uuid [16]byte, num entry.FileNum) checksum.Identity {
	return checksum.New(uuid, byte(filename.Manifest), uint64(num))
}

// encodeFileHeader makes the header of the manifest num. Its checksum is the Chain
// of the first frame.
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

// encodeFrame makes the frame of e at the place at, and returns where the next one goes.
func encodeFrame(id checksum.Identity, at frame.Cursor, kind frame.Kind, e *layout.Edit) (p []byte, next frame.Cursor) {
	return finishFrame(AppendEdit(make([]byte, frame.HeaderSize, 512), e), id, at, kind)
}

// finishFrame pads the payload that begins at p[frame.HeaderSize], and writes the
// header before it.
func finishFrame(p []byte, id checksum.Identity, at frame.Cursor, kind frame.Kind) ([]byte, frame.Cursor) {
	for len(p)%8 != 0 {
		p = append(p, 0) // shorter than any field, so DecodeEdit can tell it
	}
	h := frame.Header{
		PayloadSum: id.Sum(at.Offset+frame.HeaderSize, p[frame.HeaderSize:]),
		Size:       int64(len(p)),
		Kind:       kind,
		Chain:      at.Chain,
		Number:     at.Next, // Unsynced is 0: each frame is synced before the next is written
	}
	h.Put(p, id, at.Offset)
	at.Advance(&h)
	return p, at
}

// decodeFrame decodes the whole frame at off; its payload points into file.
func decodeFrame(id checksum.Identity, file []byte, off int64) (h frame.Header, payload []byte, err error) {
	h, err = frame.Decode(file[off:], id, off)
	if err != nil {
		return h, nil, err
	}
	if left := int64(len(file)) - off; h.Size > left {
		return h, nil, fmt.Errorf("%w: %d bytes, %d are left", frame.ErrFrame, h.Size, left)
	}
	payload = file[off+frame.HeaderSize : off+h.Size]
	_, err = h.Verify(payload, id, off+frame.HeaderSize, false)
	return h, payload, err
}

// scan walks the frames of the manifest that super names, up to a torn tail, and
// returns where they end. It returns *errs.Corruption for damage; frame.Tail has
// the rule that tells the two apart.
func scan(file []byte, super *Super, fn func(off int64, h *frame.Header, payload []byte) error) (frame.Cursor, error) {
	num := super.Manifest
	name, id := filename.Of(filename.Manifest, num), manifestIdentity(super.UUID, num)
	chain, err := decodeFileHeader(file, super.UUID, num)
	if err != nil {
		return frame.Cursor{}, err
	}
	at := frame.Cursor{Offset: fileHeader, Next: 1, Chain: chain}
	for at.Offset < int64(len(file)) {
		h, payload, err := decodeFrame(id, file, at.Offset)
		if errors.Is(err, frame.ErrFrame) {
			break
		}
		if err != nil {
			return at, fmt.Errorf("%s at %d: %w", name, at.Offset, err)
		}
		// A manifest is never written over, so a whole frame of another chain is
		// no rest of an earlier life, as it may be in a journal.
		if !at.Continues(&h) || (h.Kind == frame.Snapshot) != (h.Number == 1) || h.Kind != frame.Snapshot && h.Kind != frame.Edit {
			return at, errs.NewCorruption(name, at.Offset, "frame %d (%v) does not continue frame %d", h.Number, h.Kind, at.Next-1)
		}
		if err := fn(at.Offset, &h, payload); err != nil {
			return at, err
		}
		at.Advance(&h)
	}
	return at, judgeTail(file, super, at)
}

// judgeTail returns an error if a frame that was durable is missing at the end
// of the good frames. Frame 1 was: SUPER names a manifest after its sync.
func judgeTail(file []byte, super *Super, end frame.Cursor) error {
	num := super.Manifest
	read := func(off, n int64) ([]byte, error) { return file[off : off+n], nil }
	tail, err := frame.FindTail(manifestIdentity(super.UUID, num), end, int64(len(file)), read)
	if err != nil {
		return err
	}
	if durable := max(1, super.Durable, tail.Durable); end.Next <= durable {
		return errs.NewCorruption(filename.Of(filename.Manifest, num), end.Offset,
			"frame %d is missing or damaged, but frame %d had been durable", end.Next, durable)
	}
	return nil
}
