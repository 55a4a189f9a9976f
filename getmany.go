package brock

import (
	"iter"
	"slices"

	"github.com/brockdb/brock/internal/lsm/rangedel"
)

// getManyBatch is how many keys GetMany looks up before it yields their items.
const getManyBatch = 64

// GetMany yields the items of keys in their order, nil for an absent key. It asks the disk
// for the separated values of up to 64 keys at once, which takes little longer than for one.
// The first error, one of Txn.Get, ends it: it is yielded last, with a nil item. The items are
// valid until the transaction ends. Don't change keys until GetMany has ended: it looks up 64 of
// them at a time.
func (t *Txn) GetMany(keys [][]byte) iter.Seq2[*Item, error] {
	return func(yield func(*Item, error) bool) {
		var items []*Item
		for batch := range slices.Chunk(keys, getManyBatch) {
			// All values of a batch are on their way before the first is yielded.
			var err error
			items, err = t.appendItems(items[:0], batch)
			for _, it := range items {
				if !yield(it, nil) {
					return
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// appendItems appends the items of keys, up to the first error, and asks the disk for their values.
func (t *Txn) appendItems(items []*Item, keys [][]byte) ([]*Item, error) {
	// The user may have ended the transaction since the last batch: then its pin is another's.
	if err := t.checkAddressed(); err != nil {
		return items, err
	}
	reads := t.pin.View().NewReads()
	for _, key := range keys {
		it, err := t.Get(key)
		if err == ErrKeyNotFound {
			it = nil
		} else if err != nil {
			return items, err
		}
		if items = append(items, it); it != nil && it.e.Separated && it.e.Version != rangedel.Pending {
			reads.AddValue(it.e)
		}
	}
	reads.StartReads()
	return items, nil
}
