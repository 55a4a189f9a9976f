package frame

import (
	"fmt"
	"io"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
)

// Content is the payload of a frame that is to be written.
//
// The records must be whole, as entry.AppendRecord makes them. Only the last one may lack bytes
// at the end of its value, if it has a checksum of its own. Lengths are checked before what lies
// behind them is read; errs.ErrInvalid tells of bytes that are no records.
type Content struct {
	Kind Kind
	// Versions[i] is that of the records in Payload[i], ascending; nil: each has its version already,
	// and a checksum of its own
	Versions []entry.Version
	Payload  [][]byte  // of a Group: each slice has whole records in their plain form
	Missing  int       // bytes of the last record's value, and padding, that are not in Payload
	Value    io.Reader // yields the missing bytes; an encrypted frame leaves out the padding

	Totals Totals // of the records; set by Place, and by Measure for an encrypted frame

	size        int64 // of the encrypted frame; 0: it was not measured
	sharedBytes int64 // in the file: of all but records with tags of their own
}

// Measure returns the length of the frame, encrypted or plain. For an encrypted one it also
// checks the records as Place does, and gives them their versions, the first time.
func (c *Content) Measure(encrypted bool) (size int64, err error) {
	if encrypted {
		if c.size == 0 {
			err = c.measureEncrypted()
		}
		return c.size, err
	}
	size = HeaderSize + int64(c.Missing)
	for _, p := range c.Payload {
		size += int64(len(p))
	}
	return size, nil
}

func (c *Content) measureEncrypted() error {
	own, shared, tagged := int64(0), int64(0), false
	w := c.walkParts()
	for w.nextPart() {
		if w.own > 0 {
			shared, tagged = shared+int64(w.own), false
		}
		if w.size == 0 {
			continue
		}
		// One stub, the placeholder in the frame, stands for all records with tags in a row, even if
		// they belong to several transactions.
		if own += int64(entry.EncryptedRecordSize(w.part[w.own:])); !tagged {
			shared, tagged = shared+stubSize, true
		}
	}
	if w.err != nil {
		return w.err
	}
	// The end of the frame says how long the shared part is, in units of 8 bytes.
	if shared&7 != 0 {
		return invalidPayload("%d bytes without tags", shared)
	}
	c.Totals, c.sharedBytes, c.size = w.totals, shared, EncryptedFrameSize(own, shared)
	return nil
}

// Place completes the records before they are written at offset of the file id: it gives them
// their versions, and sets the checksums of those that have their own, because these depend on
// where a record lies. It returns the plain checksum of all bytes that the frame's covers.
func (c *Content) Place(id checksum.Identity, offset int64) (crc uint32, err error) {
	w := c.walkParts()
	for w.nextPart() {
		if w.size > 0 {
			entry.PlaceRecord(w.part[w.own:], id, offset+int64(w.own), w.head)
		}
		// A value's own checksum covers it: a large value is read for one checksum only, when it is
		// encoded.
		crc = checksum.Extend(crc, w.part[:w.own+w.head])
		offset += int64(w.own + w.size)
	}
	c.Totals = w.totals
	return crc, w.err
}

// walk is a walk over the payload of a Content, part by part: a record with its own checksum, and
// the short ones before it in the same transaction. What is not a Group's has one part a slice.
// It has no pointer to the Content, which would then not stay on the stack.
type walk struct {
	group    bool
	versions []entry.Version
	payload  [][]byte
	missing  int

	i, pos int    // the next part begins at pos of payload[i]
	totals Totals // of the records so far
	err    error  // why there are no more parts; nil: all were found

	part []byte // the part that was found
	own  int    // where in part the record with its own checksum begins; its length, if there is none
	// of that record, as entry.RawSize: part may lack bytes of its value; 0: there is none
	size, head int
}

func (c *Content) walkParts() walk {
	return walk{group: c.Kind == Group, versions: c.Versions, payload: c.Payload, missing: c.Missing}
}

// nextPart finds the next part, checks its records and gives them their version.
func (w *walk) nextPart() bool {
	if w.err != nil || w.i == len(w.payload) {
		return false
	}
	p, from := w.payload[w.i], w.pos
	w.own, w.size, w.head = len(p), 0, 0
	if w.group {
		w.findRecords(p)
	}
	end := min(from+w.own+w.size, len(p))
	w.part = p[from:end]
	if w.pos = end; end == len(p) {
		w.i, w.pos = w.i+1, 0
	}
	return w.err == nil
}

// findRecords sets own, size and head for the records of p from pos on.
func (w *walk) findRecords(p []byte) {
	v := entry.Version(0)
	if w.versions != nil {
		v = w.versions[w.i]
		if len(p) == 0 {
			// A reader learns versions from records: it would not see this transaction.
			w.err = invalidPayload("a transaction without records")
			return
		}
		if w.pos == 0 {
			if w.err = w.checkVersion(p, v); w.err != nil {
				return
			}
			entry.MarkBegin(p)
		}
	}
	pos := w.pos
	for pos < len(p) && !isOwn(p[pos:]) {
		size := entry.ShortSize(p[pos:])
		// Only a record with its own checksum can bring its version along.
		if size == 0 || v == 0 {
			w.err = invalidPayload("%d bytes at %d, version %d", len(p)-pos, pos, v)
			return
		}
		w.totals.countRecord(v, false, size)
		pos += size
	}
	if w.own = pos - w.pos; pos == len(p) {
		return
	}
	missing := 0
	if w.i == len(w.payload)-1 {
		// Only the last record may be incomplete: nothing can follow a value of which not all is here.
		missing = w.missing
	}
	if w.size, w.head, w.err = ownAt(p[pos:], missing, pos); w.err != nil {
		return
	}
	if v != 0 {
		entry.SetVersion(p[pos:], v)
	}
	w.totals.countRecord(versionOf(p[pos:]), true, w.size)
}

// checkVersion checks that a reader finds out the version v of the transaction p.
func (w *walk) checkVersion(p []byte, v entry.Version) error {
	if w.i == 0 || v == w.versions[w.i-1]+1 {
		return nil // it follows the one before, or the header says it
	}
	if v <= w.versions[w.i-1] || !isOwn(p) && !entry.SaysVersion(p, v) {
		return invalidPayload("version %d after %d, and its first record doesn't say so", v, w.versions[w.i-1])
	}
	return nil
}

// ownAt checks the lengths of the record with its own checksum that rec begins with, at pos
// of its payload. Of the last one missing bytes are not in rec.
func ownAt(rec []byte, missing, pos int) (size, head int, err error) {
	if len(rec) < entry.HeaderSize || len(rec)+missing < minOwn || pos&7 != 0 {
		return 0, 0, invalidPayload("%d bytes at %d", len(rec), pos)
	}
	size, head = entry.RawSize(rec)
	// The length decides what the checksum covers and where the next record begins.
	if size > len(rec)+missing || head > min(size, len(rec)) {
		return 0, 0, invalidPayload("%d bytes at %d, %d are left", size, pos, len(rec)+missing)
	}
	return size, head, nil
}

// minOwn is the shortest record with its own checksum: its key has at least one byte.
const minOwn = entry.HeaderSize + 8

// invalidPayload reports a payload that is not of whole records.
func invalidPayload(format string, args ...any) error {
	return fmt.Errorf("%w: frame payload: %w: %s", errs.ErrInvalid, entry.ErrRecord, fmt.Sprintf(format, args...))
}
