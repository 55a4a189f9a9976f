package segment

import (
	"bytes"
	"errors"
	"math"
	"slices"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// Remains reads what is left of a segment, which may be damaged in any place. Of a frame with
// right checksums it finds all records; of any other frame, those records whose own checksum
// is right. It is used by one goroutine.
type Remains struct {
	*Reader // reads records by handle: each proves itself

	buf []byte
	rec []byte // the record that is being decrypted

	Last   uint64 // number of the last frame that Each has met; 0 = none
	Sealed bool   // the last frame that Each has met is the seal
}

// Limits say which frames of a segment count.
type Limits struct {
	Before  uint64 // those with a lower number: a recovery has cut the others; 0 = all
	Durable uint64 // those up to this number had been durable, as is known from elsewhere
}

// OpenRemains opens a segment, even if its header is damaged, or the file is shorter than o.End. Of
// a damaged header o.KeyID tells the key; zero = not known. It returns errs.ErrForeign if the
// header is whole and of another store, and errs.ErrKey if the file is encrypted and its key can't
// be had.
func OpenRemains(c Config, kind filename.Kind, number entry.FileNum, o OpenOptions) (*Remains, error) {
	opened, err := c.openUnread(kind, number, 0, o)
	if err != nil {
		return nil, err
	}
	r := &Remains{Reader: opened}
	if err := r.readHeader(&c, kind, number, o.KeyID); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// readHeader reads the header, if it is whole, and makes keys.
func (r *Remains) readHeader(c *Config, kind filename.Kind, number entry.FileNum, keyID crypt.FileKeyID) (err error) {
	if r.header, r.keys, err = c.decodeHeader(r.readBytes(0, HeaderSize), kind, number); !errors.Is(err, ErrHeader) {
		return err
	}
	// The header is damaged. The manifest may still know the file key id.
	r.header = Header{Kind: kind, Number: number}
	if r.keys, err = c.openDecrypter(kind, number, keyID); errors.Is(err, ErrHeader) {
		return nil // nothing can be decrypted, and all is lost
	}
	return err
}

// Plain reports whether nothing of the file is encrypted.
func (r *Remains) Plain() bool { return r.keys == nil }

// readBytes returns n bytes at off, which are in the file, until its next call. What can't be
// read is zeros.
func (r *Remains) readBytes(off, n int64) []byte {
	if int64(cap(r.buf)) < n {
		r.buf = make([]byte, n)
	}
	r.file.ReadLeft(r.buf[:n], off)
	return r.buf[:n]
}

// Durable is the greatest number of a frame that a frame of the segment proves to have
// been durable; 0 = none.
func (r *Remains) Durable() (d uint64, err error) {
	err = r.eachHeader(func(h *frame.Header, _ int64) error {
		d = max(d, h.Durable())
		return nil
	}, func(int64, int64, uint64) error { return nil })
	return d, err
}

// Each calls fn for each record that is left, with its offset, in order. Of one with a
// checksum of its own the value was not verified; the record is valid until fn returns.
// lost is called for each damaged frame, and for each part of the file between frames: not
// all records that were there may have been found.
func (r *Remains) Each(l Limits, fn func(off int64, rec *entry.Record) error, lost func(from, to int64)) error {
	frames := r.Frames(false)
	rescue := func(number uint64, from, to, records int64) error {
		// Reported even if all its records are found: nobody can tell how many there were.
		lost(from, to)
		if number > l.Durable && r.header.Kind == filename.Journal {
			return nil // it may never have been whole: a transaction that nobody was told of
		}
		return r.scanRecords(records, to, fn)
	}
	return r.eachHeader(func(h *frame.Header, off int64) error {
		// Noted also for frames that don't count: the caller asks how far the segment went.
		r.Last, r.Sealed = max(r.Last, h.Number), h.Kind == frame.Seal
		if h.Kind != frame.Group || l.Before != 0 && h.Number >= l.Before {
			return nil
		}
		whole, err := r.eachOfGroup(frames, h, off, fn)
		if whole || err != nil {
			return err
		}
		return rescue(h.Number, off, off+h.Size, off+frame.HeaderSize)
	}, func(from, to int64, number uint64) error {
		// Frames follow each other: only what was never written is zeros, at the end.
		if l.Before != 0 && number >= l.Before || to == r.End() && r.neverWritten(from, to) {
			return nil
		}
		return rescue(number, from, to, from)
	})
}

// eachHeader calls found for each frame whose header is whole, and between for what lies
// between them, with the number of the first frame that is missing there.
func (r *Remains) eachHeader(found func(h *frame.Header, off int64) error, between func(from, to int64, number uint64) error) error {
	// Many segments may be open at once.
	defer func() { r.buf, r.rec = nil, nil }()
	size, next := r.End(), r.header.FirstFrame()
	for at, from := int64(HeaderSize), int64(HeaderSize); from < size; {
		var h frame.Header
		if h, at = frame.FindHeader(r.id, 0, at, size, r.readBytes); h.Size > size-at {
			at += 8 // it is cut off: its records are looked for one by one
			continue
		}
		if from < at {
			if err := between(from, at, next); err != nil {
				return err
			}
		}
		if at == size {
			break
		}
		if err := found(&h, at); err != nil {
			return err
		}
		at += h.Size
		from, next = at, h.Number+1
	}
	return nil
}

// eachOfGroup calls fn for the records of the frame at off, if the frame is whole.
func (r *Remains) eachOfGroup(frames *Frames, h *frame.Header, off int64, fn func(int64, *entry.Record) error) (whole bool, err error) {
	found := Found{Header: *h, Offset: off}
	if frames.readPayload(&found, nil) != nil {
		return false, nil
	}
	damage := r.eachRecord(&found, func(at int64, rec *entry.Record) error {
		// The frame's checksum doesn't cover values. A longer value is verified when it is read by
		// its handle.
		if r.keys != nil || !isSmall(rec) || rec.VerifyValue(found.Payload[at-off-frame.HeaderSize:], r.id, at) {
			err = fn(at, rec)
		}
		return err
	})
	return damage == nil || err != nil, err
}

// isSmall reports whether no handle may lead to a record with its own checksum: its value is
// used where it is, and so must be verified.
func isSmall(rec *entry.Record) bool { return rec.Own && rec.Size < granule }

// headWindow is longer than all of a record that comes before its value, in bytes.
const headWindow = 3 << 20

// scanRecords calls fn for the records in a part of the file whose own checksum, or tag, is right.
func (r *Remains) scanRecords(from, to int64, fn func(int64, *entry.Record) error) (err error) {
	defer pageio.Guard(pageio.Arm(), &err, r.name)
	for at := (from + 7) &^ 7; at+entry.HeaderSize < to; {
		b := r.readBytes(at, min(readBytes+headWindow, to-at))
		// The window is longer than what is searched: a head that begins before stop is whole in b.
		stop := at + min(readBytes, to-at)
		for start := at; at < stop; {
			src := b[min(at-start, int64(len(b))):]
			if len(src) < entry.HeaderSize {
				return nil
			}
			rec, ok := r.recordAt(src, at, to)
			if !ok {
				at += 8
				continue
			}
			if r.keys != nil || !isSmall(&rec) || rec.Value != nil && rec.VerifyValue(src, r.id, at) {
				if err := fn(at, &rec); err != nil {
					return err
				}
			}
			// No record begins inside another one.
			at += int64(rec.FileSize(r.keys != nil))
		}
	}
	return nil
}

// recordAt returns the record at offset at, if there is one. src has the bytes from there on: at
// least all that comes before the record's value.
func (r *Remains) recordAt(src []byte, at, to int64) (rec entry.Record, ok bool) {
	if r.keys == nil {
		// Most places have no record: this is quicker than an error.
		if k := entry.Kind(src[0]); !k.Known() && k != entry.RangeDelete {
			return rec, false
		}
		rec, err := entry.DecodeHead(src, int(min(to-at, math.MaxInt)))
		return rec, err == nil && rec.VerifyHead(src, r.id, at)
	}
	c, ok := entry.ParseClear(src)
	if !ok || c.Size > to-at || c.Head > len(src) || c.Attempt > crypt.MaxAttempt {
		return rec, false
	}
	// Not in place: if this is no record, its bytes are searched again from the next offset on.
	r.rec = slices.Grow(r.rec[:0], c.Head)[:c.Head-crypt.TagSize]
	x, err := entry.DecryptHead(r.rec, src[:c.Head], r.keys, at)
	return x.Record, err == nil
}

// neverWritten reports whether a part of the file was never written.
func (r *Remains) neverWritten(from, to int64) bool {
	for ; from < to; from += readBytes {
		if b := r.readBytes(from, min(readBytes, to-from)); len(bytes.TrimLeft(b, "\x00")) > 0 {
			return false
		}
	}
	return true
}

// ReadOwner is the store that a segment says it belongs to; ok is false if its header is damaged.
func ReadOwner(c Config, kind filename.Kind, number entry.FileNum) (uuid [16]byte, ok bool) {
	page, err := pageio.ReadHead(c.FS, c.filePath(kind, number), HeaderSize)
	if err != nil || len(page) < HeaderSize {
		return uuid, false
	}
	uuid = [16]byte(page[64:80])
	_, err = checkPlain(page, kind, number, uuid)
	return uuid, err == nil
}
