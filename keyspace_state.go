package brock

import (
	"bytes"
	"sync/atomic"

	"github.com/brockdb/brock/internal/conflict"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/internal/pending"
	"github.com/brockdb/brock/internal/scan"
	"github.com/brockdb/brock/internal/view"
)

// keyspaceState is a keyspace as transactions see it: what its stored keys begin
// with, and how its entries are kept. A stored key is the keyspace's prefix and the
// user's key; what is below this package knows stored keys only.
type keyspaceState struct {
	conflict.Keyspace
	prefix  []byte // not above any of its stored keys
	past    []byte // the bound after the last of them
	refused error  // why nobody can use it, in a stand-in for a keyspace

	encoder atomic.Pointer[pending.Encoder]
	options atomic.Pointer[KeyspaceOptions] // in force
	habit   scan.Habit
}

// encoding is what the keyspaces of a store share to make records.
type encoding struct {
	seed        uint64 // of key hashes
	compression pending.Compression
}

func newKeyspaceState(id entry.KeyspaceID, name string, o KeyspaceOptions, c *encoding) *keyspaceState {
	s := &keyspaceState{prefix: entry.AppendKeyspace(nil, id), past: entry.AfterKeyspace(id)}
	s.ID, s.Name = id, name
	s.keep(o, c)
	return s
}

// keep has the entries of s kept as o says, from now on.
func (s *keyspaceState) keep(o KeyspaceOptions, c *encoding) {
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

// refusing stands in for a keyspace that can't be used.
func refusing(err error) *keyspaceState { return &keyspaceState{refused: err} }

// usable is why nothing can be read from s or written to it, nil if all can.
func (s *keyspaceState) usable() error {
	if s.Dropped.Load() {
		return ErrKeyspaceNotFound
	}
	return nil
}

// absentFrom reports whether s was dropped before p was acquired: what p has of it may be a
// part. In a store that is only read, a View may lack s before Refresh tells of the drop.
func (s *keyspaceState) absentFrom(p *view.Pin, readOnly bool) bool {
	return (s.Dropped.Load() || readOnly && s.ID != entry.DefaultKeyspace) && !p.Holds(s.ID)
}

// note adds s to the keyspaces k, unless it is the default one: that can't be dropped.
func (s *keyspaceState) note(k *conflict.Keyspaces) {
	if s.ID != entry.DefaultKeyspace {
		k.Add(&s.Keyspace)
	}
}

// stored is the stored form of key in memory of its own.
func (s *keyspaceState) stored(key []byte) []byte {
	return pending.AppendKey(make([]byte, 0, len(s.prefix)+len(key)), s.prefix, key)
}

// bounds turns user bounds, nil meaning open, into stored ones.
func (s *keyspaceState) bounds(lo, hi []byte) (slo, shi []byte, err error) {
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

// within narrows stored bounds to the keys that begin with the user's prefix.
func (s *keyspaceState) within(prefix, lo, hi []byte) (slo, shi []byte, err error) {
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

// cloneKey is a copy of key, which may lie in a mapped file.
func cloneKey(key []byte) (clone []byte, err error) {
	defer pageio.Guard(pageio.Arm(), &err, pageio.SomeFile)
	return bytes.Clone(key), nil
}

// userKey is the user's part of a stored key. Its capacity ends with it, so
// that an append by its reader can't reach what follows.
func userKey(stored []byte) []byte {
	if len(stored) == 0 {
		return nil
	}
	if entry.PrefixLen(stored[0]) == 1 { // as for nearly all
		return stored[1:len(stored):len(stored)]
	}
	return stored[entry.PrefixLen(stored[0]):len(stored):len(stored)]
}

// afterPrefix is the least key above all that begin with p, user's or stored; nil if
// there is none, which no stored prefix has.
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
