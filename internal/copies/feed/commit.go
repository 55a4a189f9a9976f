package feed

import (
	"errors"
	"fmt"
	"iter"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
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

	beside   *layout.FeedCommit // it is in no journal
	run      *view.Run          // of beside
	segments view.Segments      // with the large values of run
}

// Change is one change of a commit. It and its slices are valid until the loop goes on.
type Change struct {
	Kind     entry.Kind // Set, Delete or RangeDelete
	Keyspace entry.KeyspaceID
	Key      []byte // without the prefix of its keyspace; of a range delete the lower bound
	Upper    []byte // of a range delete: the bound behind the last key; nil: the keyspace's end
	Meta     byte
	Expires  uint64 // Unix milliseconds; 0: never

	commit *Commit
	of     entry.Version
	stored []byte       // the stored key
	value  entry.Stored // unless handle says where it is
	handle entry.Handle
	apart  bool // the value is at handle
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
		var err error
		switch {
		case c.run != nil:
			err = c.eachOfRun(yield)
		default:
			err = c.eachRecord(yield)
		}
		if err != nil && !errors.Is(err, errStopped) {
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
	records := c.records
	ch := Change{commit: c, of: c.Version}
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
	ch.Kind, ch.Meta, ch.Expires, ch.value = r.Kind, r.Meta, r.Expires, r.Stored()
	if r.Kind == entry.SetLatest {
		ch.Kind = entry.Set
	}
	ch.apart = r.Value == nil && r.ValueSize > 0
	ch.handle = entry.Handle{Segment: ch.commit.reader.num, Offset: uint64(at), Length: uint64(r.ValueSize)}
	upper := r.Value
	if r.Kind != entry.RangeDelete {
		upper = nil
	}
	return true, ch.setKeys(r.Key, upper)
}

// setKeys sets the keys from stored ones, which are copied.
func (ch *Change) setKeys(key, upper []byte) error {
	id, ok := entry.KeyspaceOf(key)
	if !ok {
		return fmt.Errorf("%w: a change of key %x", errs.ErrCorrupt, key)
	}
	prefix := entry.PrefixLen(key[0])
	n := len(key)
	ch.stored = append(append(ch.stored[:0], key...), upper...)
	ch.Keyspace, ch.Key, ch.Upper = id, ch.stored[prefix:n:n], nil
	// The end of a keyspace is the beginning of the next one, so its prefix is another one.
	if upper != nil {
		if of, ok := entry.KeyspaceOf(upper); ok && of == id {
			ch.Upper = ch.stored[n+prefix:]
		}
	}
	ch.stored = ch.stored[:n]
	return nil
}

// eachOfRun walks the range deletes and then the entries of a run.
func (c *Commit) eachOfRun(yield func(*Change, error) bool) (err error) {
	ch := Change{commit: c, of: c.Version}
	take := func(e *entry.Entry, upper []byte) error {
		ch.Kind, ch.Meta, ch.Expires = e.Kind, e.Meta, e.Expires
		if e.Kind == entry.SetLatest {
			ch.Kind = entry.Set
		}
		ch.value = entry.Stored{Bytes: e.Value, Codec: e.Codec, Raw: e.Raw}
		ch.handle, ch.apart = e.Handle, e.Separated
		if err := ch.setKeys(e.Key, upper); err != nil {
			return err
		}
		if !yield(&ch, nil) {
			return errStopped
		}
		return nil
	}
	ranges := c.run.RangeDeletes().Copier()
	defer ranges.Close()
	if err := ranges.Since(0, func(d rangedel.Delete) error {
		return take(&entry.Entry{Key: d.Lo, Kind: entry.RangeDelete}, d.Hi)
	}); err != nil {
		return err
	}
	it := c.run.Copier()
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if err := take(it.Entry(), nil); err != nil {
			return err
		}
	}
	return it.Err()
}

// AppendValue appends the value to dst. It is never nil.
func (ch *Change) AppendValue(dst []byte) (value []byte, err error) {
	c := ch.commit
	if c == nil || c.reader == nil || c.Version != ch.of {
		return dst, fmt.Errorf("%w: the value of a change behind its commit", errs.ErrInvalid)
	}
	defer pageio.Guard(pageio.Arm(), &err, c.reader.name)
	if dst == nil {
		dst = []byte{}
	}
	stored, offset, file := ch.value, int64(-1), c.reader.name
	if ch.apart {
		source := c.reader.source
		if c.run != nil {
			source = c.segments.Find(ch.handle.Segment)
		}
		if source == nil {
			return dst, c.reader.gone()
		}
		if stored, err = source.Stored(ch.handle, ch.stored, c.Version); err != nil {
			return dst, err
		}
		offset, file = int64(ch.handle.Offset), filename.Of(source.Header().Kind, source.Num)
	}
	if stored.Raw == 0 {
		return append(dst, stored.Bytes...), nil
	}
	plain, err := c.reader.c.Views.Coder.Decode(nil, stored.Codec, stored.Bytes, int(stored.Raw))
	if err != nil {
		return dst, errs.NewCorruption(file, offset, "value: %v", err)
	}
	return append(dst, plain...), nil
}
