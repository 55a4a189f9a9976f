package brock

import (
	"bytes"

	"github.com/brockdb/brock/internal/commit"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/hash"
)

type readSet struct {
	keys   [][]byte
	ranges [][2][]byte
	seed   uint64
}

func (r *readSet) AddKey(k []byte) { r.keys = append(r.keys, bytes.Clone(k)) }
func (r *readSet) AddRange(lo, hi []byte) {
	r.ranges = append(r.ranges, [2][]byte{bytes.Clone(lo), bytes.Clone(hi)})
}
func (r *readSet) Reset() { *r = readSet{} }
func (r *readSet) Changed(c commit.Changes, since entry.Version) (bool, error) {
	for _, k := range r.keys {
		if v, ok, err := c.Newest(k, hash.Sum(r.seed, k)); err != nil || ok && v > since {
			return true, err
		}
	}
	for _, x := range r.ranges {
		if ok, err := c.ChangedSince(x[0], x[1], since); err != nil || ok {
			return true, err
		}
	}
	return false, nil
}
