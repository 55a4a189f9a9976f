package owndata

import (
	"bytes"
	"context"
	"math/rand/v2"

	"github.com/brockdb/brock"
)

// Sample says which pairs of the store were drawn.
type Sample struct {
	Keys   int   `json:"keys"`
	Places int   `json:"places"` // parts of the key range that they are from; 0 = all keys had the same chance
	Store  int64 `json:"storeBytes"`

	keys [][]byte // in random order
}

const (
	most     = 1 << 16 // keys of a sample
	readAll  = 1 << 20 // entries up to which all keys are read to draw from
	places   = 1 << 12 // else: parts of the key range
	perPlace = most / places
)

// draw draws keys. From a large store it takes the first ones of many parts of about the
// same size, as reading all keys would take long.
func (b *bench) draw(ctx context.Context) (s Sample, err error) {
	entries, size := b.estimate()
	s.Store = size
	err = b.view(ctx, func(txn *brock.Txn) error {
		if entries <= readAll {
			return s.reservoir(txn, b.random)
		}
		return s.heads(txn, b.split())
	})
	b.random.Shuffle(len(s.keys), func(i, j int) { s.keys[i], s.keys[j] = s.keys[j], s.keys[i] })
	s.Keys = len(s.keys)
	return s, err
}

// reservoir gives each key the same chance (algorithm R: Vitter, ACM TOMS 1985).
func (s *Sample) reservoir(txn *brock.Txn, random *rand.Rand) error {
	n := 0
	for item, err := range txn.Items(brock.IteratorOptions{KeysOnly: true}) {
		if err != nil {
			return err
		}
		n++
		if len(s.keys) < most {
			s.keys = append(s.keys, item.KeyCopy(nil))
		} else if i := random.IntN(n); i < most {
			s.keys[i] = item.KeyCopy(s.keys[i][:0])
		}
	}
	return nil
}

// heads takes the first keys of each part.
func (s *Sample) heads(txn *brock.Txn, cuts [][]byte) error {
	s.Places = len(cuts) + 1
	for i := range s.Places {
		o := brock.IteratorOptions{KeysOnly: true, Limit: perPlace}
		if i > 0 {
			o.Lower = cuts[i-1]
		}
		if i < len(cuts) {
			o.Upper = cuts[i]
		}
		for item, err := range txn.Items(o) {
			if err != nil {
				return err
			}
			s.keys = append(s.keys, item.KeyCopy(nil))
		}
	}
	return nil
}

// absent returns a key next to a drawn one. It is almost never in the store.
func absent(key []byte) []byte { return append(bytes.Clone(key), "\x00brock-bench"...) }
