package brock

import (
	"bytes"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/txn/conflict"
	"github.com/brockdb/brock/internal/txn/pending"
	"github.com/brockdb/brock/internal/txn/scan"
	"github.com/brockdb/brock/internal/view"
)

// keyspaceState is a keyspace as transactions see it: the prefix of its stored keys, and
// its options. A stored key is the keyspace's prefix followed by the user's key. Packages
// below this one know stored keys only.
type keyspaceState struct {
	conflict.Keyspace
	prefix  []byte // all its stored keys begin with it
	past    []byte // upper bound of its stored keys, exclusive
	refused error  // error of all calls, in a stand-in for a keyspace that can't be used

	encoder atomic.Pointer[pending.Encoder]
	options atomic.Pointer[KeyspaceOptions] // in force
	habit   scan.Habit                      // how iterators of the keyspace have used values, for readahead
}

// encoding has what all keyspaces of a store use to encode records.
type encoding struct {
	seed        uint64 // of key hashes
	compression pending.Compression
}

func newKeyspaceState(id entry.KeyspaceID, name string, o KeyspaceOptions, c *encoding) *keyspaceState {
	s := &keyspaceState{prefix: entry.AppendKeyspace(nil, id), past: entry.AfterKeyspace(id)}
	s.ID, s.Name = id, name
	s.setOptions(o, c)
	return s
}

// setOptions sets the options of s. Entries that were written before stay as they are.
func (s *keyspaceState) setOptions(o KeyspaceOptions, c *encoding) {
	s.options.Store(&o)
	s.encoder.Store(&pending.Encoder{
		Prefix:        s.prefix,
		Threshold:     o.ValueThreshold,
		TTL:           o.TTL,
		Seed:          c.seed,
		Codec:         o.Compression.codec(),
		CompressAbove: max(o.CompressAbove, 1),
		Compression:   &c.compression,
	})
}

// refusing returns a stand-in for a keyspace that can't be used: all calls return err.
func refusing(err error) *keyspaceState { return &keyspaceState{refused: err} }

// usable returns nil unless s was dropped.
func (s *keyspaceState) usable() error {
	if s.Dropped.Load() {
		return ErrKeyspaceNotFound
	}
	return nil
}

// absentFrom reports whether s was dropped before p was acquired. p may then have only a part
// of its entries. In a read-only store the View may lack s a little before Refresh has
// marked s as dropped.
func (s *keyspaceState) absentFrom(p *view.Pin, readOnly bool) bool {
	return (s.Dropped.Load() || readOnly && s.ID != entry.DefaultKeyspace) && !p.Holds(s.ID)
}

// noteWritten adds s to k, the keyspaces whose drop would be a conflict. The default keyspace can't
// be dropped, so it is not added.
func (s *keyspaceState) noteWritten(k *conflict.Keyspaces) {
	if s.ID != entry.DefaultKeyspace {
		k.Add(&s.Keyspace)
	}
}

// stored returns the stored form of key in new memory.
func (s *keyspaceState) stored(key []byte) []byte {
	return pending.AppendKey(make([]byte, 0, len(s.prefix)+len(key)), s.prefix, key)
}

// storedBounds turns user bounds, nil meaning open, into stored ones.
func (s *keyspaceState) storedBounds(lo, hi []byte) (slo, shi []byte, err error) {
	defer pageio.Guard(pageio.Arm(), &err, pageio.SomeFile)
	slo, shi = s.prefix, s.past
	if lo != nil {
		slo = s.stored(lo)
	}
	if hi != nil {
		shi = s.stored(hi)
	}
	return slo, shi, nil
}

// narrowToPrefix narrows stored bounds to the keys that begin with the user's prefix.
func (s *keyspaceState) narrowToPrefix(prefix, lo, hi []byte) (slo, shi []byte, err error) {
	defer pageio.Guard(pageio.Arm(), &err, pageio.SomeFile)
	p := s.stored(prefix)
	if bytes.Compare(p, lo) > 0 {
		lo = p
	}
	if end := afterPrefix(p); bytes.Compare(end, hi) < 0 {
		hi = end
	}
	return lo, hi, nil
}

// cloneKey copies key, which the user may have in a mapped file.
func cloneKey(key []byte) (clone []byte, err error) {
	defer pageio.Guard(pageio.Arm(), &err, pageio.SomeFile)
	return bytes.Clone(key), nil
}

// userKey returns the user's part of a stored key. Its capacity is its length, so that an
// append by the user can't overwrite what follows.
func userKey(stored []byte) []byte {
	if len(stored) == 0 {
		return nil
	}
	if entry.PrefixLen(stored[0]) == 1 { // nearly all keyspaces
		return stored[1:len(stored):len(stored)]
	}
	return stored[entry.PrefixLen(stored[0]):len(stored):len(stored)]
}

// afterPrefix returns the least key above all keys that begin with p; nil if there is none
// (p is empty or all 0xff, which no stored prefix is).
func afterPrefix(p []byte) []byte {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] != 0xff {
			hi := append([]byte(nil), p[:i+1]...)
			hi[i]++
			return hi
		}
	}
	return nil
}
