package feed

import (
	"errors"
	"fmt"
	"iter"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// Commit is one commit, of one version.
type Commit struct {
	Version entry.Version

	reader  *Reader
	records frame.Records // at its first record; without more: it is not in the journal
	after   frame.Records // at the first record of the next commit of the frame

	beside *layout.FeedCommit // it is in no journal
	run    *view.Run          // of beside
	view   *view.View         // has the segments of large values
}

// Change is one change of a commit. It and its slices are valid until the loop goes on.
type Change struct {
	Entry    entry.Entry // with its stored key; of a range delete as its record: the bounds are key and value
	Keyspace entry.KeyspaceID

	commit *Commit
	keys   []byte // memory of the keys
}

// Keyspace returns the change of a keyspace that the commit consists of, or nil.
func (c *Commit) Keyspace() *layout.KeyspaceChange {
	if c.beside == nil || c.beside.Keyspace.ID == entry.DefaultKeyspace {
		return nil
	}
	return &c.beside.Keyspace
}

// Changes walks the changes in an order in which they can be applied: that in which they were
// written, or of a large transaction range deletes first and then keys in order. Whoever applies them
// in this order has the state behind the commit. It may be called again.
func (c *Commit) Changes() iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		each := c.eachRecord
		if c.run != nil {
			each = c.eachOfRun
		}
		if err := each(yield); err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

// errStopped says that the loop over changes was left.
var errStopped = errors.New("the loop was left")

// begin sets Version to the first one behind last that records have, and moves records to its first one.
func (c *Commit) begin(last entry.Version) (err error) {
	defer pageio.Guard(pageio.Arm(), &err, c.reader.name)
	records, after := c.records, c.records
	var r entry.Record
	for after.More() {
		before := after
		if err := after.Next(&r); err != nil {
			return err
		}
		switch {
		case r.Version <= last:
			records = after
			continue
		case c.Version == 0:
			c.Version = r.Version
		}
		if r.Version > c.Version {
			after = before
			break
		}
	}
	c.records, c.after = records, after
	return nil
}

// eachRecord walks the records of the journal.
func (c *Commit) eachRecord(yield func(*Change, error) bool) error {
	records, ch := c.records, Change{commit: c}
	for {
		more, err := ch.nextRecord(&records)
		if err != nil || !more {
			return err
		}
		if !yield(&ch, nil) {
			return errStopped
		}
	}
}

// nextRecord makes ch the next change of the commit; false: there is none.
func (ch *Change) nextRecord(records *frame.Records) (more bool, err error) {
	defer pageio.Guard(pageio.Arm(), &err, ch.commit.reader.name)
	if !records.More() {
		return false, nil
	}
	var r entry.Record
	at := records.At()
	if err := records.Next(&r); err != nil || r.Version != ch.commit.Version {
		return false, err
	}
	// In the file it lies where it was when the frame was read.
	e := r.Entry()
	e.Separated = r.Value == nil && r.ValueSize > 0
	e.Handle = entry.Handle{Segment: ch.commit.reader.num, Offset: uint64(at), Length: uint64(r.ValueSize)}
	return true, ch.setEntry(&e)
}

// setEntry makes ch the change that e is. Keys are copied, as those of e may be mapped.
func (ch *Change) setEntry(e *entry.Entry) error {
	id, ok := entry.KeyspaceOf(e.Key)
	if !ok {
		return fmt.Errorf("%w: a change of key %x", errs.ErrCorrupt, e.Key)
	}
	ch.Keyspace, ch.Entry = id, *e
	n := len(e.Key)
	ch.keys = append(ch.keys[:0], e.Key...)
	if e.Kind == entry.RangeDelete {
		ch.keys = append(ch.keys, e.Value...)
		ch.Entry.Value = ch.keys[n:]
	}
	ch.Entry.Key, ch.Entry.Version = ch.keys[:n:n], ch.commit.Version
	return nil
}

// eachOfRun walks the range deletes and then the entries of a run.
func (c *Commit) eachOfRun(yield func(*Change, error) bool) error {
	ch := Change{commit: c}
	take := func(e *entry.Entry) error {
		err := ch.setEntry(e)
		if err == nil && !yield(&ch, nil) {
			err = errStopped
		}
		return err
	}
	ranges := c.run.RangeDeletes().Copier()
	defer ranges.Close()
	if err := ranges.Since(0, func(d rangedel.Delete) error {
		return take(&entry.Entry{Key: d.Lo, Value: d.Hi, Kind: entry.RangeDelete})
	}); err != nil {
		return err
	}
	it := c.run.Copier()
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if err := take(it.Entry()); err != nil {
			return err
		}
	}
	return it.Err()
}

// ReadValue returns the value in new memory. It is never nil.
func (ch *Change) ReadValue() (value []byte, err error) {
	c, e := ch.commit, &ch.Entry
	if c == nil || c.reader == nil || c.Version != e.Version {
		return nil, fmt.Errorf("%w: the value of a change behind its commit", errs.ErrInvalid)
	}
	defer pageio.Guard(pageio.Arm(), &err, c.reader.name)
	coder, own := c.reader.c.Views.Coder, false
	switch {
	case !e.Separated && e.Raw > 0:
		if value, err = coder.Decode(nil, e.Codec, e.Value, int(e.Raw)); err != nil {
			err = errs.NewCorruption(c.reader.name, -1, "value: %v", err)
		}
		return value, err
	case !e.Separated:
		value = e.Value
	case c.view.Segments.Find(e.Handle.Segment) == nil: // its file was missing
		return nil, c.reader.gone()
	default:
		if value, own, err = c.view.ReadValue(coder, e.Key, e, nil, nil); own || err != nil {
			return value, err
		}
	}
	return append([]byte{}, value...), nil
}
