package pending

import (
	"bytes"
	"encoding/binary"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/txn/commit"
)

// operations are those of Writes on keys whose value is not known before the commit: a key that was
// set before gets its result at once, as a set. If there is an index, each operation has an empty
// record there, so that later writes replace it as they do others. It is never committed.
type operations struct {
	ops       []commit.Operation
	unindexed int    // how many have no record
	versioned uint32 // how many versioned sets there are
	bytes     int    // of memory that they take, about
}

// Unseen is the kind of an entry that Get returns for an operation whose result is not known yet.
const Unseen entry.Kind = 0

// operationOverhead is how many bytes an operation takes beside keys and operands, about.
const operationOverhead = 300

// Operations returns the operations to commit, once Payload was called.
func (w *Writes) Operations() []commit.Operation { return w.ops }

// SetVersioned sets a key that begins with prefix and ends in the commit's version and a number. Both are
// copied. It returns an errs.ErrUnsupported if writes were spilled.
func (w *Writes) SetVersioned(c *Encoder, prefix, value []byte) error {
	if w.files != nil {
		return commit.ErrOperations
	}
	var suffix [commit.Suffix]byte
	binary.BigEndian.PutUint32(suffix[8:], w.versioned)
	o := c.newOperation(prefix, suffix[:])
	o.Versioned, o.Steps = true, []commit.Step{{Operand: bytes.Clone(value)}}
	// The value is in the operation now, and in the payload then.
	w.addOperation(o, 2*(len(o.Key)+len(value)))
	w.versioned++
	w.unindexed++
	return nil
}

// Apply adds an operation on a key; key and operand are copied. The caller has checked both. It returns
// an errs.ErrInvalid if the operation doesn't fit a value that these writes have set, and an
// errs.ErrUnsupported if writes were spilled: then the writes are as before.
func (w *Writes) Apply(c *Encoder, key []byte, s commit.Step, now func() uint64) error {
	if w.files != nil {
		return commit.ErrOperations
	}
	o := c.newOperation(key, nil)
	o.Hash = checksum.HashKey(c.Seed, o.Key)
	m := &w.memory
	i, covered := w.findOwn(o.Key, o.Hash)
	joined := !covered && i >= 0 && m.recs[i].op > 0
	size := len(o.Key)
	switch {
	case joined && int(m.recs[i].op) > w.marks.operations:
		n, err := w.ops[m.recs[i].op-1].AddStep(s)
		w.operations.bytes += n
		return err
	case joined: // in a copy, as a Rollback may need the one that there is
		for _, before := range w.ops[m.recs[i].op-1].Steps {
			n, err := o.AddStep(before)
			if err != nil {
				return err
			}
			size += n
		}
	}
	n, err := o.AddStep(s)
	switch {
	case err != nil:
		return err
	case !joined && (covered || i >= 0):
		return w.computeNow(c, &o, i, covered, now())
	}
	w.addOperation(o, size+n)
	if !w.Indexed {
		w.unindexed++
		return nil
	}
	w.addRecord(c, &entry.Entry{Key: o.Key, Kind: entry.Set}, o.Hash)
	m.recs[len(m.recs)-1].op = uint32(len(w.ops))
	return nil
}

// newOperation returns an operation on a user's key of the keyspace, with suffix behind it.
func (c *Encoder) newOperation(key, suffix []byte) commit.Operation {
	stored := AppendKey(make([]byte, 0, len(c.Prefix)+len(key)+len(suffix)), c.Prefix, key)
	return commit.Operation{Key: append(stored, suffix...), Encoder: c, TTL: RoundMillis(max(c.TTL, 0))}
}

// addOperation adds an operation, which takes so many bytes.
func (w *Writes) addOperation(o commit.Operation, bytes int) {
	w.ops = append(w.ops, o)
	w.operations.bytes += operationOverhead + bytes
}

// computeNow adds what o makes of the i-th record, or of no value if that is covered.
func (w *Writes) computeNow(c *Encoder, o *commit.Operation, i int, covered bool, now uint64) (err error) {
	base := entry.Entry{Kind: entry.Delete}
	if !covered {
		w.memory.fillEntry(i, &base)
	}
	if base.Raw > 0 {
		if base.Value, err = c.DecodeValue(&base); err != nil {
			return err
		}
	}
	return w.addResult(o, &base, now)
}

// addResult adds what o makes of base as a set or a delete.
func (w *Writes) addResult(o *commit.Operation, base *entry.Entry, now uint64) error {
	e, _, err := o.Apply(base, now)
	if err == nil {
		w.addRecord(o.Encoder, &e, o.Hash)
	}
	return err
}

// addRecord adds a record of e, which has its stored key, to writes with an index.
func (w *Writes) addRecord(c commit.Encoder, e *entry.Entry, h uint64) {
	var at int
	w.memory.arena, at = c.EncodeEntry(w.memory.arena, e)
	w.memory.indexRecord(at, e.Key, h)
	w.memory.count++
}

// Resolve turns the operations on a stored key, of which Get has returned Unseen, into a set or a delete of
// what they make of base. It returns an errs.ErrInvalid if they don't fit that.
func (w *Writes) Resolve(key []byte, h uint64, base *entry.Entry, now uint64) error {
	_, i := w.memory.findRecord(key, h)
	return w.addResult(&w.ops[w.memory.recs[i].op-1], base, now)
}

// EachUnseen calls fn for each stored key in [lo, hi) with an operation, until fn returns an error. fn may
// call Resolve for the key.
func (w *Writes) EachUnseen(lo, hi []byte, fn func(key []byte, h uint64) error) error {
	for i := range w.ops {
		o := &w.ops[i]
		if o.Versioned || bytes.Compare(o.Key, lo) < 0 || bytes.Compare(o.Key, hi) >= 0 {
			continue
		}
		// Else it was resolved or replaced since.
		if rec, covered := w.findOwn(o.Key, o.Hash); covered || w.memory.recs[rec].op != uint32(i+1) {
			continue
		}
		if err := fn(o.Key, o.Hash); err != nil {
			return err
		}
	}
	return nil
}

// unindexedOperations returns the operations that have no record.
func (w *Writes) unindexedOperations() (list []commit.Operation) {
	for i := range w.ops {
		if w.ops[i].Versioned || !w.Indexed {
			list = append(list, w.ops[i])
		}
	}
	return list
}
