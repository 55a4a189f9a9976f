package brock

import "github.com/brockdb/brock/internal/pending"

// results are the items that a transaction has handed out after its first, and
// their keys. They come in blocks that only their users keep alive.
type results struct {
	items []Item // free
	keys  []byte // the free part is between length and capacity
	block int    // size of the last block of items

	firstItems [4]Item
	firstKeys  [256]byte
}

// The sizes of the later blocks.
const (
	maxItems = 64
	maxKeys  = 8 << 10
)

// scratch returns a free item, and the stored form of key in free memory. Both
// are for the next call too, unless they are kept.
func (t *Txn) scratch(key []byte) (*Item, []byte) {
	n := len(t.space.prefix) + len(key)
	if !t.taken && n <= len(t.firstKey) {
		return &t.first, pending.AppendKey(t.firstKey[:0:n], t.space.prefix, key)
	}
	if t.more == nil {
		t.more = new(results)
		t.more.block = len(t.more.firstItems)
		t.more.items, t.more.keys = t.more.firstItems[:], t.more.firstKeys[:0]
	}
	return t.more.scratch(t.space.prefix, key)
}

func (r *results) scratch(prefix, key []byte) (*Item, []byte) {
	if len(r.items) == 0 {
		r.block = min(2*r.block, maxItems)
		r.items = make([]Item, r.block)
	}
	n := len(prefix) + len(key)
	if cap(r.keys)-len(r.keys) < n {
		r.keys = make([]byte, 0, max(n, min(2*cap(r.keys), maxKeys)))
	}
	end := len(r.keys)
	return &r.items[0], pending.AppendKey(r.keys[end:end:end+n], prefix, key)
}

// keep ends the freedom of what scratch returned.
func (t *transaction) keep(it *Item, stored []byte) {
	if it == &t.first {
		t.taken = true
		return
	}
	r := t.more
	r.items, r.keys = r.items[1:], r.keys[:len(r.keys)+len(stored)]
}
