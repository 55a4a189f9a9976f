package frame

import (
	"fmt"
	"io"

	"github.com/brockdb/brock/internal/base/entry"
)

// Content is the content of a frame to be encrypted.
type Content struct {
	Payload [][]byte  // of a Group: each slice has whole records in their plain form
	Missing int       // bytes of the last record's value, and padding, that are not in Payload
	Value   io.Reader // yields the missing bytes, without the padding

	opaque bool // the payload has no records: it is not that of a Group
	// the record measured last has a tag of its own, so the next one shares its stub: the
	// placeholder in the frame for records that are encrypted one by one
	tagged bool
	// bytes in the file: of records with tags of their own, and of all else
	ownBytes, sharedBytes int64
}

// Measure returns the length of the encrypted frame. For a Group, it also checks the records
// as Frame.Place does, and returns their totals. Unless first is 0, it gives the records of
// Payload[i] the version first+i.
func (c *Content) Measure(kind Kind, first entry.Version) (t Totals, size int64, err error) {
	c.opaque, c.tagged, c.ownBytes, c.sharedBytes = kind != Group, false, 0, 0
	for i, p := range c.Payload {
		v, missing := first, 0
		if v != 0 {
			v += entry.Version(i)
		}
		if i == len(c.Payload)-1 {
			// Only the last record may be incomplete: nothing can follow a value of which not all
			// is here.
			missing = c.Missing
		}
		if c.opaque {
			c.sharedBytes += int64(len(p))
		} else if err := c.measureRecords(p, missing, v, &t); err != nil {
			return t, 0, err
		}
	}
	// The end of the frame says how long the shared part is, in units of 8 bytes.
	if c.sharedBytes&7 != 0 {
		return t, 0, fmt.Errorf("%w: %d bytes without tags", entry.ErrRecord, c.sharedBytes)
	}
	return t, EncryptedSize(c.ownBytes, c.sharedBytes), nil
}

// measureRecords checks the records of one transaction, as Place does, and adds their lengths in
// the encrypted frame.
func (c *Content) measureRecords(records []byte, missing int, v entry.Version, t *Totals) error {
	if v != 0 {
		// A reader learns versions from records: it would not see this transaction.
		if len(records) == 0 {
			return fmt.Errorf("%w: a transaction without records", entry.ErrRecord)
		}
		entry.Begin(records)
	}
	for pos := 0; pos < len(records); {
		rec := records[pos:]
		if !isOwn(rec) {
			// A short record takes its version from the transaction, so there must be one.
			size := entry.ShortSize(rec)
			if size == 0 || v == 0 {
				return fmt.Errorf("%w: %d bytes at %d, version %d", entry.ErrRecord, len(rec), pos, v)
			}
			t.countVersion(v)
			t.SmallBytes += uint64(size)
			c.sharedBytes, c.tagged = c.sharedBytes+int64(size), false
			pos += size
			continue
		}
		size, _, err := ownAt(rec, missing, pos)
		if err != nil {
			return err
		}
		if v != 0 {
			entry.SetVersion(rec, v)
		}
		t.countVersion(versionOf(rec))
		t.OwnBytes += uint64(size)
		// One stub stands for all records with tags in a row, even if they belong to
		// several transactions.
		if c.ownBytes += int64(entry.EncryptedSize(rec)); !c.tagged {
			c.sharedBytes, c.tagged = c.sharedBytes+stubSize, true
		}
		pos += size
	}
	return nil
}

// eachPart calls own for each record with a tag, and rest for the bytes between them. It stops
// at the first error. Measure must have checked the records.
func (c *Content) eachPart(own func(rec []byte, size, head int) error, rest func(records []byte) error) error {
	for _, p := range c.Payload {
		from := 0
		for pos := 0; pos < len(p) && !c.opaque; {
			if !isOwn(p[pos:]) {
				pos += entry.ShortSize(p[pos:])
				continue
			}
			if err := rest(p[from:pos]); err != nil {
				return err
			}
			size, head := entry.RawSize(p[pos:])
			// The last record may go on behind the payload: its missing bytes come from Value.
			if err := own(p[pos:min(pos+size, len(p))], size, head); err != nil {
				return err
			}
			pos += size
			from = pos
		}
		if err := rest(p[min(from, len(p)):]); err != nil {
			return err
		}
	}
	return nil
}
