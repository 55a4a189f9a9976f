package frame

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
)

// Totals sums up the records of frames; its zero value is no records. The order of the fields is the
// format of a seal.
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

// countRecord counts one record of the version v; own says that it has its own checksum.
func (t *Totals) countRecord(v entry.Version, own bool, size int) {
	if t.Records++; t.Records == 1 {
		t.Min = v
	}
	t.Min, t.Max = min(t.Min, v), max(t.Max, v)
	if own {
		t.OwnBytes += uint64(size)
	} else {
		t.SmallBytes += uint64(size)
	}
}

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
		if t, crc, err = h.checkRecords(payload, id, offset, values); err != nil {
			return t, err
		}
	} else {
		crc = checksum.Plain(payload)
	}
	if crc ^= id.Mask(offset); crc != h.PayloadSum {
		return t, fmt.Errorf("%w: payload checksum is %08x, want %08x", ErrFrame, crc, h.PayloadSum)
	}
	return t, nil
}

// checkRecords decodes every record of a Group's payload, which lies at offset of the file id, and
// sums them up. Of a plain frame it checks the padding and, with values, the values, and returns
// the plain checksum. Until that is compared it trusts lengths only, and those only within payload.
func (h *Header) checkRecords(payload []byte, id checksum.Identity, offset int64, values bool) (t Totals, crc uint32, err error) {
	covered := 0
	var r entry.Record
	for records := h.Walk(payload, offset); records.More(); {
		rec, at := records.payload, records.At()
		pos := len(payload) - len(rec)
		if err := records.Next(&r); err != nil {
			return t, 0, fmt.Errorf("%w: record at %d: %w", ErrFrame, at, err)
		}
		if r.Version < h.FirstVersion || r.Version > entry.MaxVersion || r.Own && pos&7 != 0 {
			return t, 0, fmt.Errorf("%w: record at %d: version %d, the frame begins with %d", ErrFrame, at, r.Version, h.FirstVersion)
		}
		t.countRecord(r.Version, r.Own, r.Size)
		if !r.Own || h.Encrypted { // a tag covers the whole record
			continue
		}
		crc = checksum.Extend(crc, payload[covered:pos+r.KeyEnd()])
		covered = pos + r.Size
		// No checksum covers the bytes behind the value, so a flipped bit there would pass.
		if len(bytes.TrimLeft(rec[r.UnpaddedSize():r.Size], "\x00")) != 0 {
			return t, 0, fmt.Errorf("%w: record at %d: padding is not zeros", ErrFrame, at)
		}
		if values && !r.VerifyValue(rec, id, at) {
			return t, 0, fmt.Errorf("%w: record at %d: value checksum does not match", ErrFrame, at)
		}
	}
	if t.Records != uint64(h.Records) {
		return t, 0, fmt.Errorf("%w: %d records, want %d", ErrFrame, t.Records, h.Records)
	}
	if h.Encrypted {
		return t, 0, nil
	}
	return t, checksum.Extend(crc, payload[covered:]), nil
}

// isOwn and versionOf read an encoded record: docs/format.md, "Record".
func isOwn(rec []byte) bool { return rec[0]&0x80 == 0 }

func versionOf(rec []byte) entry.Version {
	return entry.Version(binary.LittleEndian.Uint64(rec[16:])) & entry.MaxVersion
}
