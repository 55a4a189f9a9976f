package salvage

import (
	"bytes"
	"cmp"
	"context"
	"errors"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/rangedel"
)

// chooser decides which version of each key is written. It is offered the versions newest first.
type chooser struct {
	*survey
	sources *sources
	out     *output
	now     uint64        // Unix milliseconds
	key     []byte        // the present one; nil: there was none yet
	decided bool          // older versions of key don't count
	failed  entry.Version // newest version whose value can't be read; 0: all could be read
	why     error         // why it can't be read
	tried   entry.Version // oldest version whose value can't be read at its handle
	at      entry.Handle  // that handle

	ranges *rangedel.Cover // the range deletes; nil: there are none
}

// mergeSources writes the newest version of each key.
func (c *chooser) mergeSources(ctx context.Context, strong, weak *sorter) error {
	records, ranges := strong.sources()
	old, more := weak.sources()
	defer old.Close()
	// All range deletes count: only the newest version of each key is kept, so no older reader
	// needs what they delete.
	c.ranges = rangedel.NewForwardCover(entry.MaxVersion, append(ranges, more...)...)
	defer c.ranges.Close()
	var sources []iterator.Iterator
	for _, of := range c.sources.list {
		sources = append(sources, of)
	}
	// Merge yields one of equal entries. If its value can't be read, the weak record may have it.
	sure := iterator.Merge(append(sources, records))
	defer sure.Close()
	inSure, inOld := sure.First(), old.First()
	var err error
	for n := 0; inSure || inOld; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return errs.Ended(ctx)
		}
		if inSure && (!inOld || entry.Compare(sure.Entry(), old.Entry()) <= 0) {
			err = c.offerEntry(sure.Entry(), false)
			inSure = sure.Next()
		} else {
			err = c.offerEntry(old.Entry(), true)
			inOld = old.Next()
		}
		if err != nil {
			return err
		}
	}
	c.endKey()
	return cmp.Or(sure.Err(), old.Err())
}

// offerEntry is called for each entry in order. It writes the entry if that is the version to keep.
func (c *chooser) offerEntry(e *entry.Entry, weak bool) error {
	if !bytes.Equal(c.key, e.Key) {
		c.endKey()
		c.beginKey(e.Key)
	}
	if c.decided || weak && !c.weakCounts(e) {
		return nil
	}
	if gone, err := c.isGone(e); gone || err != nil {
		c.decided = true // so are all older versions
		return err
	}
	damage, err := c.out.writeEntry(e)
	switch {
	case err != nil:
		return err
	case damage == nil:
		c.noteWritten(e, weak)
	default:
		c.noteUnreadable(e, damage)
	}
	return nil
}

// isGone reports whether the entry is deleted or has expired.
func (c *chooser) isGone(e *entry.Entry) (bool, error) {
	if c.ranges == nil {
		return !e.Live(c.now), nil
	}
	return !e.Live(c.now) || c.ranges.Newest(c.key) > e.Version, c.ranges.Err()
}

// weakCounts reports whether a weak record may be an entry that is lost, or the value of one.
func (c *chooser) weakCounts(e *entry.Entry) bool {
	switch lost := e.Version == c.tried; {
	// The runs have all entries here, so a record that none of them has was deleted or replaced.
	case !lost && !c.sources.lost(e.Key, e.Version):
		return false
	case c.stamps[filename.New(filename.Value, e.Handle.Segment)] == 0:
		return true
	case lost:
		// The transaction may have written the key before, with the same version.
		return c.at.Segment < e.Handle.Segment || c.at.Segment == e.Handle.Segment && c.at.Offset <= e.Handle.Offset
	default:
		// A segment behind this one has lost records, and one of them may have replaced this value.
		return c.doubt[e.Version] < e.Handle.Segment
	}
}

// noteWritten notes that the key is in the new store.
func (c *chooser) noteWritten(e *entry.Entry, weak bool) {
	c.decided = true
	c.sum.Keys++
	if weak && e.Version != c.tried {
		c.sum.Found++
	}
	if c.failed != 0 && c.failed != e.Version {
		// The newest value was lost: say that the store has an older one.
		c.reportUnreadable(true)
	}
	c.failed = 0
}

// noteUnreadable notes that the value of e can't be read at its handle. Then a weak record may have
// it, or an older version of the key counts. Which one was the newest is kept for the report.
func (c *chooser) noteUnreadable(e *entry.Entry, why error) {
	c.tried, c.at = e.Version, e.Handle
	if c.failed == 0 {
		c.failed, c.why = e.Version, why
	}
}

// beginKey begins a key.
func (c *chooser) beginKey(key []byte) {
	c.key = append(c.key[:0], key...)
	c.failed, c.tried, c.why = 0, 0, nil
	c.decided = c.isForgotten(key)
}

// endKey ends a key, and reports it if its value is lost.
func (c *chooser) endKey() {
	if c.failed != 0 {
		c.reportUnreadable(false)
	}
}

// reportUnreadable reports that the newest value of the key is lost. older says that an older one
// is written in its place.
func (c *chooser) reportUnreadable(older bool) {
	l := &errs.Corruption{Offset: -1, Stale: older, Reason: "the value of a key can't be read", Err: c.why}
	if older {
		l.Reason = "the newest value of a key can't be read, and an older one is kept"
	}
	var at *errs.Corruption
	if errors.As(c.why, &at) {
		l.File, l.Offset, l.Err = at.File, at.Offset, errors.New(at.Reason)
	}
	c.reportLostKeys(l, c.key, c.key)
}
