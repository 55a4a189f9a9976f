package commit

import (
	"bytes"
	"slices"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/rangedel"
)

// groupWrites is the Changes that a transaction of a group is checked against: the store,
// and the writes of the transactions before it in the group. Those are indexed when a check first
// asks for them (by hash for keys, in order for ranges), so that groups without checks pay nothing.
type groupWrites struct {
	store Store
	seed  uint64

	before []*Request // transactions that passed before, in version order

	indexedCount int              // how many of before are in keys and ranges
	keys         map[uint64]place // newest record of a written key, by the key's hash
	ranges       *rangedel.Set    // range deletes; nil: none

	sortedCount int      // how many of before are in order
	order       [][]byte // their keys, in sorted stretches, each at least twice as long as the next
	ends        []int    // where each stretch ends in order
}

// place is where a record lies: the transaction's number in groupWrites.before, and the offset in its payload.
type place struct{ transaction, offset uint32 }

// checkRequest returns nil if r may be committed after the store's transactions and those in
// before, a Refusal if not, or another error if that could not be found out. Until
// forgetGroup, before may only grow from one call to the next.
func (w *groupWrites) checkRequest(r *Request, before []*Request) error {
	w.before = before
	switch c := &r.Check; {
	case c.AsksNothing():
		return nil
	case r.checked > 0:
		// The committer has checked its reads up to r.checked.
		return w.checkSince(r)
	case c.Isolation == SnapshotIsolation:
		return w.checkOverwrites(r)
	default:
		return c.Reads.Check(w, c.Since)
	}
}

// mostArrivals is how many newly written keys a leader looks up in a request's read set, at most.
const mostArrivals = 1 << 10

// checkSince is checkRequest for a request whose committer has checked it up to the version
// r.checked (ahead.go): it looks only at what was written since. It returns errStale if that is too
// much; the committer must check again.
func (w *groupWrites) checkSince(r *Request) error {
	look := refuseWritten(r.Check.Reads, mostArrivals) // few, as everybody waits for this
	// The group's members are not in the store yet, and all are newer than r.checked.
	for _, before := range w.before {
		if err := eachRecord(before.Payload, look); err != nil {
			return err
		}
	}
	all, err := w.store.EachArrival(r.checked, look)
	// Some of what was written since r.checked is in runs already, which nobody reads here.
	if err == nil && !all {
		err = errStale
	}
	return err
}

// checkOverwrites refuses r if a key that it writes, or a key in a range that it deletes, was
// written after r's snapshot.
func (w *groupWrites) checkOverwrites(r *Request) error {
	since := r.Check.Since
	// What an operation writes is not in it, as that is right whatever others have written.
	return eachRecord(r.Payload[:r.plainBytes()], func(key, hi []byte) error {
		// To delete a range is to write each key in it, so none may have changed.
		if hi != nil {
			changed, err := w.ChangedSince(key, hi, since)
			if err == nil && changed {
				err = RefuseRange(key, hi)
			}
			return err
		}
		v, ok, err := w.Newest(key, checksum.HashKey(w.seed, key), since)
		if err == nil && ok && v > since {
			err = RefuseKey(key)
		}
		return err
	})
}

// Newest returns the newest version of key, if it is newer than since.
func (w *groupWrites) Newest(key []byte, hash uint64, since entry.Version) (entry.Version, bool, error) {
	// The group comes first: all its versions are newer than the store's, and than since.
	w.indexBefore()
	v := w.ranges.Newest(key, entry.MaxVersion)
	if at, ok := w.keys[hash]; ok {
		v = max(v, w.before[at.transaction].version)
	}
	if v > 0 {
		return v, true, nil
	}
	return w.store.Newest(key, hash, since)
}

// readNewer makes the newest entry of o's key its base, if that is newer than since. It returns
// errOutdated if it is newer and can't be read here.
func (w *groupWrites) readNewer(o *Operation, since entry.Version) (newer bool, err error) {
	w.indexBefore()
	at, written := w.keys[o.Hash]
	version := entry.Version(0)
	e := entry.Entry{Kind: entry.Delete}
	if written {
		r := w.before[at.transaction]
		rec, err := entry.DecodeRecord(r.Payload[at.offset:])
		// Another key with this hash may hide the record of this one.
		if err != nil || !bytes.Equal(rec.Key, o.Key) {
			return false, errOutdated
		}
		version = r.version
		e = entry.Entry{Kind: rec.Kind, Meta: rec.Meta, Expires: rec.Expires, Codec: rec.Codec, Raw: rec.Raw, Value: rec.Value}
	}
	switch {
	// A set of the same version is newer than the range delete of its transaction.
	case w.ranges.Newest(o.Key, entry.MaxVersion) > version:
		e.Kind = entry.Delete
	case !written:
		newer, known, err := w.store.FindRecent(o.Key, o.Hash, since, MaxOperand, &o.base)
		if err == nil && !known {
			err = errOutdated
		}
		return newer, err
	case e.Raw > MaxOperand:
		e.Value = make([]byte, MaxOperand+1)
	case e.Raw > 0:
		if e.Value, err = o.Encoder.DecodeValue(&e); err != nil {
			return false, err
		}
	}
	e.CopyBase(&o.base, MaxOperand)
	return true, nil
}

// ChangedSince reports whether a key in [lo, hi) has a version newer than since.
// All versions of a group are newer than what its members could see.
func (w *groupWrites) ChangedSince(lo, hi []byte, since entry.Version) (bool, error) {
	w.sortBefore()
	w.indexBefore()
	// The group's range deletes change every key that they cover, wherever it is.
	if w.ranges.ChangedSince(lo, hi, since) {
		return true, nil
	}
	begin := 0
	for _, end := range w.ends {
		// Binary search in each stretch. Their lengths at least halve, so there are few.
		part := w.order[begin:end]
		i, _ := slices.BinarySearchFunc(part, lo, bytes.Compare)
		if i < len(part) && (hi == nil || bytes.Compare(part[i], hi) < 0) {
			return true, nil
		}
		begin = end
	}
	return w.store.ChangedSince(lo, hi, since)
}

// indexBefore brings keys and ranges up to date. Two keys with one hash are taken for one:
// among a million keys in one of 10^13 cases. That is a conflict too many, which is
// allowed, never one too few.
func (w *groupWrites) indexBefore() {
	if w.keys == nil {
		w.keys = make(map[uint64]place)
	}
	for i := w.indexedCount; i < len(w.before); i++ {
		r, at := w.before[i], 0
		for at < len(r.Payload) {
			rec, err := entry.DecodeRecord(r.Payload[at:])
			if err != nil {
				break
			}
			if rec.Kind == entry.RangeDelete {
				// Both alias the payload, which lives as long as the group.
				w.ranges = w.ranges.With(rangedel.Delete{Lo: rec.Key, Hi: rec.Value, Version: r.version})
			} else {
				w.keys[checksum.HashKey(w.seed, rec.Key)] = place{uint32(i), uint32(at)}
			}
			at += rec.Size
		}
	}
	w.indexedCount = len(w.before)
}

// sortBefore brings the order up to date. Each key is sorted again only when
// its stretch at least doubles, so n keys take O(n log² n) comparisons in all.
func (w *groupWrites) sortBefore() {
	for _, r := range w.before[w.sortedCount:] {
		begin := len(w.order)
		_ = eachRecord(r.Payload, func(key, hi []byte) error {
			if hi == nil {
				w.order = append(w.order, key)
			}
			return nil
		})
		// Join the new stretch with those before it that are less than twice as long.
		for n := len(w.ends); n > 0; n = len(w.ends) {
			previous := 0
			if n > 1 {
				previous = w.ends[n-2]
			}
			if begin-previous >= 2*(len(w.order)-begin) {
				break
			}
			begin, w.ends = previous, w.ends[:n-1]
		}
		// Sorted anew instead of merged: that is simpler.
		slices.SortFunc(w.order[begin:], bytes.Compare)
		w.ends = append(w.ends, len(w.order))
	}
	w.sortedCount = len(w.before)
}

// keptKeys is how many keys an index may have to be reused for the next group. To clear
// a larger one would cost each small group more than to make a new one.
const keptKeys = 1 << 13

// forgetGroup forgets the group, so that nothing keeps its payloads alive.
func (w *groupWrites) forgetGroup() {
	if max(len(w.keys), cap(w.order)) > keptKeys {
		*w = groupWrites{store: w.store, seed: w.seed}
		return
	}
	// Without this the arrays would keep the payloads alive, to which keys point.
	clear(w.keys)
	clear(w.order)
	w.before, w.order, w.ends, w.ranges = nil, w.order[:0], w.ends[:0], nil
	w.indexedCount, w.sortedCount = 0, 0
}

// eachRecord calls fn for every record of a payload, until it returns an error: with the key of a
// set or delete, or with the bounds of a range delete, for which hi is not nil.
func eachRecord(payload []byte, fn func(key, hi []byte) error) error {
	for len(payload) > 0 {
		rec, err := entry.DecodeRecord(payload)
		if err != nil {
			return err
		}
		var hi []byte
		if rec.Kind == entry.RangeDelete {
			hi = rec.Value
		}
		if err := fn(rec.Key, hi); err != nil {
			return err
		}
		payload = payload[rec.Size:]
	}
	return nil
}
