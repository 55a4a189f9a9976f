package frame

import (
	"fmt"
	"io"

	"github.com/brockdb/brock/internal/base/entry"
)

// Content is the content of a frame to be encrypted.
type Content struct {
	Payload [][]byte  // of a Group: each slice has whole records in their plain form
	Missing int       // bytes of the last record's value that are not in Payload, with padding
	Value   io.Reader // yields the missing bytes, without the padding

	plain bool // the payload has no records: it is not that of a Group
	// the record measured last has a tag, so the next one with a tag shares its stub
	row       bool
	own, rest int64 // bytes in the file: of records with tags, and of all else
}

// Measure returns the length of the encrypted frame. For a Group, it also checks the records
// as Place does, and returns their totals. Unless first is 0, it gives the records of
// Payload[i] the version first+i.
func (c *Content) Measure(kind Kind, first entry.Version) (t Totals, size int64, err error) {
	c.plain, c.row, c.own, c.rest = kind != Group, false, 0, 0
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
		if c.plain {
			c.rest += int64(len(p))
		} else if err := c.measure(p, missing, v, &t); err != nil {
			return t, 0, err
		}
	}
	// The frame's end has the length of the rest in units of 8.
	if c.rest&7 != 0 {
		return t, 0, fmt.Errorf("%w: %d bytes without tags", entry.ErrRecord, c.rest)
	}
	return t, EncryptedSize(c.own, c.rest), nil
}

// measure checks the records of one transaction, as Place does, and adds their lengths in the
// encrypted frame.
func (c *Content) measure(records []byte, missing int, v entry.Version, t *Totals) error {
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
			c.rest, c.row = c.rest+int64(size), false
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
		if c.own += int64(entry.EncryptedSize(rec)); !c.row {
			c.rest, c.row = c.rest+stubSize, true
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
		for pos := 0; pos < len(p) && !c.plain; {
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
