package brock

import (
	"iter"

	"github.com/brockdb/brock/internal/scan"
)

// getManyBatch is how many keys GetMany looks up before it yields their items.
const getManyBatch = 64

// GetMany yields the items of keys in their order, nil for an absent key. It reads the
// separated values of up to 64 keys at the same time, which a disk does almost as fast
// as one. The first error ends it.
func (t *Txn) GetMany(keys [][]byte) iter.Seq2[*Item, error] {
	return func(yield func(*Item, error) bool) {
		if len(keys) == 0 {
			return
		}
		if err := t.usable(); err != nil {
			yield(nil, err)
			return
		}
		m := many{txn: t}
		t.holds.Add(1) // yield may end the transaction while values are read
		defer m.end()
		for len(keys) > 0 {
			// All values of a batch are on their way before the first is yielded.
			n := min(getManyBatch, len(keys))
			err := m.look(keys[:n])
			for _, it := range m.items {
				if !yield(it, nil) {
					return
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
			keys = keys[n:]
		}
	}
}

// many is a GetMany under way.
type many struct {
	txn   *Txn
	items []*Item       // found in the batch, nil for the absent
	ahead []*scan.Ahead // of those whose values are separated
}

// look finds the items of keys, up to the first error, and has their values
// brought near.
func (m *many) look(keys [][]byte) error {
	m.wait()
	m.items, m.ahead = m.items[:0], m.ahead[:0]
	for _, key := range keys {
		it, err := m.txn.Get(key)
		if err == ErrKeyNotFound {
			it = nil
		} else if err != nil {
			return err
		}
		m.items = append(m.items, it)
		if it != nil && it.e.Separated {
			it.ahead = scan.NewAhead(it.e)
			m.ahead = append(m.ahead, it.ahead)
		}
	}
	scan.Fetch(m.txn.values(), m.ahead, m)
	return nil
}

// wait waits for the values of the batch.
func (m *many) wait() {
	for _, a := range m.ahead {
		a.Wait()
	}
}

func (m *many) end() {
	m.wait()
	m.txn.drop()
}
