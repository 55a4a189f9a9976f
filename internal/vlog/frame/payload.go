package frame

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
)

// Totals sums up the records of frames; its zero value is no records.
type Totals struct {
	Records    uint64
	OwnBytes   uint64        // encoded bytes of records with their own checksum (large values)
	SmallBytes uint64        // encoded bytes of records without one
	Min, Max   entry.Version // 0 without records
}

// Add adds the totals u.
func (t *Totals) Add(u Totals) {
	if u.Records == 0 {
		return
	}
	if t.Records == 0 {
		*t = u
		return
	}
	t.Records += u.Records
	t.OwnBytes += u.OwnBytes
	t.SmallBytes += u.SmallBytes
	t.Min, t.Max = min(t.Min, u.Min), max(t.Max, u.Max)
}

// countVersion counts one record with the version v.
func (t *Totals) countVersion(v entry.Version) {
	if t.Records++; t.Records == 1 {
		t.Min = v
	}
	t.Min, t.Max = min(t.Min, v), max(t.Max, v)
}

// Place completes encoded records before they are written at offset of the file id. The records
// are those of one transaction, which get its version v. If v is 0, each has its version already,
// and a checksum of its own. Place sets the checksums of records that have their own, because
// these depend on where a record lies.
//
// It returns the plain checksum of the payload: crc, continued over all bytes that it covers. The
// records must be whole, as entry.AppendRecord makes them. Only the last one may lack rest bytes
// at the end of its value, if it has a checksum of its own. Place checks lengths before it reads
// what lies behind them.
func Place(crc uint32, records []byte, rest int, v entry.Version, id checksum.Identity, offset int64, t *Totals) (uint32, error) {
	if v != 0 {
		// A reader learns versions from records: it would not see this transaction.
		if len(records) == 0 {
			return 0, fmt.Errorf("%w: a transaction without records", entry.ErrRecord)
		}
		entry.Begin(records)
	}
	covered := 0 // bytes before it are in crc, or must not be
	for pos := 0; pos < len(records); {
		rec := records[pos:]
		if !isOwn(rec) {
			size := entry.ShortSize(rec)
			// Only a record with its own checksum can bring its version along.
			if size == 0 || v == 0 {
				return 0, fmt.Errorf("%w: %d bytes at %d, version %d", entry.ErrRecord, len(rec), pos, v)
			}
			t.countVersion(v)
			t.SmallBytes += uint64(size)
			pos += size
			continue
		}
		size, head, err := ownAt(rec, rest, pos)
		if err != nil {
			return 0, err
		}
		if v != 0 {
			entry.SetVersion(rec, v)
		}
		t.countVersion(versionOf(rec))
		// A value's own checksum covers it: a large value is read for one
		// checksum only, when it is encoded.
		entry.Place(rec, id, offset+int64(pos), head)
		crc = checksum.Extend(crc, records[covered:pos+head])
		covered = pos + size
		t.OwnBytes += uint64(size)
		pos += size
	}
	return checksum.Extend(crc, records[min(covered, len(records)):]), nil
}

// ownAt checks the lengths of the record with its own checksum that rec begins with, at pos
// of its payload. Of the last one missing bytes are not in rec.
func ownAt(rec []byte, missing, pos int) (size, head int, err error) {
	if len(rec) < entry.HeaderSize || len(rec)+missing < minOwn || pos&7 != 0 {
		return 0, 0, fmt.Errorf("%w: %d bytes at %d", entry.ErrRecord, len(rec), pos)
	}
	size, head = entry.RawSize(rec)
	// The length decides what the checksum covers and where the next record begins.
	if size > len(rec)+missing || head > min(size, len(rec)) {
		return 0, 0, fmt.Errorf("%w: %d bytes at %d, %d are left", entry.ErrRecord, size, pos, len(rec)+missing)
	}
	return size, head, nil
}

// minOwn is the shortest record with its own checksum: its key has at least one byte.
const minOwn = entry.HeaderSize + 8

// Verify checks the payload of the frame h. The payload lies at offset of the file
// id. With values, it checks values that have their own checksum, too. The payload
// must not be used unless Verify returns nil.
func (h *Header) Verify(payload []byte, id checksum.Identity, offset int64, values bool) (Totals, error) {
	var t Totals
	if h.Encrypted {
		return t, fmt.Errorf("%w: encrypted, in a file without keys", ErrFrame)
	}
	if int64(len(payload)) != h.PayloadSize() {
		return t, fmt.Errorf("%w: %d bytes of payload, want %d", ErrFrame, len(payload), h.PayloadSize())
	}
	var crc uint32
	if h.Kind == Group { // lengths of records say which bytes the checksum covers
		var err error
		if crc, err = t.checkRecords(payload, h.FirstVersion, id, offset, values); err != nil {
			return t, err
		}
	} else {
		crc = checksum.Plain(payload)
	}
	if crc ^= id.Mask(offset); crc != h.PayloadSum {
		return t, fmt.Errorf("%w: payload checksum is %08x, want %08x", ErrFrame, crc, h.PayloadSum)
	}
	// The header has a checksum of its own, so the count must agree with what it says.
	if t.Records != uint64(h.Records) {
		return t, fmt.Errorf("%w: %d records, want %d", ErrFrame, t.Records, h.Records)
	}
	return t, nil
}

// checkRecords decodes every record and returns the plain checksum. Until the checksum is
// compared it trusts lengths only, and those only within payload.
func (t *Totals) checkRecords(payload []byte, first entry.Version, id checksum.Identity, offset int64, values bool) (crc uint32, err error) {
	covered, version := 0, first-1
	for pos := 0; pos < len(payload); {
		rec := payload[pos:]
		r, err := entry.DecodeNext(rec, &version)
		if err != nil {
			return 0, fmt.Errorf("%w: record at %d: %w", ErrFrame, offset+int64(pos), err)
		}
		if r.Version < first || r.Version > entry.MaxVersion || r.Own && pos&7 != 0 {
			return 0, fmt.Errorf("%w: record at %d: version %d, the frame begins with %d", ErrFrame, offset+int64(pos), r.Version, first)
		}
		if r.Own {
			_, head := entry.RawSize(rec)
			crc = checksum.Extend(crc, payload[covered:pos+head])
			covered = pos + r.Size
			t.OwnBytes += uint64(r.Size)
			if !zeroPadded(rec[:r.Size], head, len(r.Value)) {
				return 0, fmt.Errorf("%w: record at %d: padding is not zeros", ErrFrame, offset+int64(pos))
			}
			if values && !r.VerifyValue(rec, id, offset+int64(pos)) {
				return 0, fmt.Errorf("%w: record at %d: value checksum does not match", ErrFrame, offset+int64(pos))
			}
		} else {
			t.SmallBytes += uint64(r.Size)
		}
		t.countVersion(r.Version)
		pos += r.Size
	}
	return checksum.Extend(crc, payload[covered:]), nil
}

// zeroPadded checks the bytes behind the value. No checksum covers them, so a
// flipped bit there would pass.
func zeroPadded(rec []byte, head, valueLen int) bool {
	end := head + valueLen
	if valueLen >= entry.PieceSize {
		end += 4 * ((valueLen + entry.PieceSize - 1) / entry.PieceSize)
	}
	return len(bytes.TrimLeft(rec[end:], "\x00")) == 0
}

// isOwn and versionOf read an encoded record: docs/format.md, "Record".
func isOwn(rec []byte) bool { return rec[0]&0x80 == 0 }

func versionOf(rec []byte) entry.Version {
	return entry.Version(binary.LittleEndian.Uint64(rec[16:])) & entry.MaxVersion
}
