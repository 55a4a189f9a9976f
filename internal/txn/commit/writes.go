package commit

import (
	"bytes"
	"errors"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/hash"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/txn/conflict"
)

// writes is the conflict.Changes that a transaction of a group is checked against: the
// store, and the writes of the transactions before it in the group. Those are indexed
// when a check first asks for them (by hash for keys, in order for ranges), so that groups
// without checks pay nothing.
type writes struct {
	store Store
	seed  uint64

	before []*Request // the transactions before, in version order

	hashed int                      // how many of before are in keys
	keys   map[uint64]entry.Version // newest version of a written key, by the key's hash

	ranged int           // how many of before are in ranges
	ranges *rangedel.Set // their range deletes; nil: they have none

	sorted int      // how many of before are in order
	order  [][]byte // keys in sorted stretches, each at least twice as long as the next one
	ends   []int    // where each stretch ends in order
}

// checkRequest returns nil if r may be committed after the store's transactions and those in
// before, a conflict.Refusal if not, or another error if that could not be found out.
// Until reset, before may only grow from one call to the next.
func (w *writes) checkRequest(r *Request, before []*Request) error {
	w.before = before
	switch c := &r.Check; {
	case c.AsksNothing():
		return nil
	case r.checked > 0:
		return w.checkSince(r)
	case c.Isolation == conflict.SnapshotIsolation:
		return w.overwritten(r)
	default:
		return c.Reads.Check(w, c.Since)
	}
}

// mostArrivals is how many newly written keys a leader looks up in a request's read set.
const mostArrivals = 1 << 10

var errStale = errors.New("too much was committed since the check")

// checkSince is check for a request whose committer has checked it up to the version
// r.checked (ahead.go): it looks only at what was written since. It returns errStale if
// that is too much; the committer must check again.
func (w *writes) checkSince(r *Request) error {
	n := 0
	look := func(lo, hi []byte) error {
		// To look up a range takes a walk of the whole read set.
		if n++; n > mostArrivals || hi != nil {
			return errStale
		}
		return r.Check.Reads.Refuse(lo)
	}
	for _, before := range w.before {
		for rest := before.Payload; len(rest) > 0; {
			rec, err := entry.DecodeRecord(rest)
			if err != nil {
				return err
			}
			rest = rest[rec.Size:]
			hi := []byte(nil)
			if rec.Kind == entry.RangeDelete {
				hi = rec.Value
			}
			if err := look(rec.Key, hi); err != nil {
				return err
			}
		}
	}
	all, err := w.store.EachArrival(r.checked, look)
	if err == nil && !all {
		err = errStale
	}
	return err
}

// overwritten refuses r if a key that it writes, or a key in a range that it deletes, was
// written after r's snapshot.
func (w *writes) overwritten(r *Request) error {
	since := r.Check.Since
	for rest := r.Payload; len(rest) > 0; {
		rec, err := entry.DecodeRecord(rest)
		if err != nil {
			return err
		}
		rest = rest[rec.Size:]
		if rec.Kind == entry.RangeDelete {
			if changed, err := w.ChangedSince(rec.Key, rec.Value, since); err != nil {
				return err
			} else if changed {
				return conflict.RefuseRange(rec.Key, rec.Value)
			}
			continue
		}
		v, ok, err := w.Newest(rec.Key, hash.Sum(w.seed, rec.Key), since)
		if err != nil {
			return err
		}
		if ok && v > since {
			return conflict.RefuseKey(rec.Key)
		}
	}
	return nil
}

// Newest returns the newest version of key, if it is newer than since.
func (w *writes) Newest(key []byte, hash uint64, since entry.Version) (entry.Version, bool, error) {
	// The group comes first: all its versions are newer than the store's.
	w.hashBefore()
	w.rangeBefore()
	if v := max(w.ranges.Newest(key, entry.MaxVersion), w.keys[hash]); v > 0 {
		return v, true, nil
	}
	return w.store.Newest(key, hash, since)
}

// ChangedSince reports whether a key in [lo, hi) has a version newer than since.
// All versions of a group are newer than what its members could see.
func (w *writes) ChangedSince(lo, hi []byte, since entry.Version) (bool, error) {
	w.sortBefore()
	w.rangeBefore()
	if w.ranges.ChangedSince(lo, hi, since) {
		return true, nil
	}
	begin := 0
	for _, end := range w.ends {
		part := w.order[begin:end]
		i, _ := slices.BinarySearchFunc(part, lo, bytes.Compare)
		if i < len(part) && (hi == nil || bytes.Compare(part[i], hi) < 0) {
			return true, nil
		}
		begin = end
	}
	return w.store.ChangedSince(lo, hi, since)
}

// rangeBefore adds the range deletes of new members of before to ranges.
func (w *writes) rangeBefore() {
	for _, r := range w.before[w.ranged:] {
		if r.Ranges == 0 {
			continue
		}
		eachRecord(r.Payload, func(kind entry.Kind, key, value []byte) {
			if kind == entry.RangeDelete {
				w.ranges = w.ranges.With(rangedel.Tombstone{Lo: key, Hi: value, Version: r.version})
			}
		})
	}
	w.ranged = len(w.before)
}

// hashBefore brings the hashes up to date. Two keys with one hash are taken for one:
// among a million keys in one of 10^13 cases. That is a conflict too many, which is
// allowed, never one too few.
func (w *writes) hashBefore() {
	if w.keys == nil {
		w.keys = make(map[uint64]entry.Version)
	}
	for _, r := range w.before[w.hashed:] {
		eachKey(r.Payload, func(key []byte) { w.keys[hash.Sum(w.seed, key)] = r.version })
	}
	w.hashed = len(w.before)
}

// sortBefore brings the order up to date. Each key is sorted again only when
// its stretch at least doubles, so n keys take O(n log² n) comparisons in all.
func (w *writes) sortBefore() {
	for _, r := range w.before[w.sorted:] {
		begin := len(w.order)
		eachKey(r.Payload, func(key []byte) { w.order = append(w.order, key) })
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
		slices.SortFunc(w.order[begin:], bytes.Compare)
		w.ends = append(w.ends, len(w.order))
	}
	w.sorted = len(w.before)
}

// keptKeys is how many keys an index may have to be reused for the next group. To clear
// a larger one would cost each small group more than to make a new one.
const keptKeys = 1 << 13

// forgetGroup forgets the group, so that nothing keeps its payloads alive.
func (w *writes) forgetGroup() {
	if max(len(w.keys), cap(w.order)) > keptKeys {
		*w = writes{store: w.store, seed: w.seed}
		return
	}
	clear(w.keys)
	clear(w.order)
	w.before, w.order, w.ends, w.ranges = nil, w.order[:0], w.ends[:0], nil
	w.hashed, w.sorted, w.ranged = 0, 0, 0
}

// eachKey calls fn for every key of a payload's sets and deletes, but not for range deletes.
func eachKey(payload []byte, fn func(key []byte)) {
	eachRecord(payload, func(kind entry.Kind, key, _ []byte) {
		if kind != entry.RangeDelete {
			fn(key)
		}
	})
}

// eachRecord calls fn for every record of a payload. fn gets no pointer to the record: the
// record would then be allocated on the heap.
func eachRecord(payload []byte, fn func(kind entry.Kind, key, value []byte)) {
	for len(payload) > 0 {
		rec, err := entry.DecodeRecord(payload)
		if err != nil {
			return
		}
		fn(rec.Kind, rec.Key, rec.Value)
		payload = payload[rec.Size:]
	}
}
