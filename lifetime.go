package brock

import (
	"sync/atomic"

	"github.com/brockdb/brock/internal/iterator"
)

// adopt enters it into the list of open iterators, and gives it a hold of the
// pin. It reports false, with it.err set, if the transaction has just ended.
func (t *transaction) adopt(it *Iterator) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state.Load() != txnOpen {
		it.err = ErrTxnDone
		return false
	}
	// Under the lock, so that the end of the transaction either finds the iterator in
	// the list or refuses it here.
	t.holds.Add(1)
	t.iterators++
	t.lends() // its keys
	it.next = t.open
	if t.open != nil {
		t.open.prev = it
	}
	t.open = it
	return true
}

// release ends the iterator: once, whatever happens to the transaction meanwhile.
func (it *Iterator) release() {
	if it.txn == nil || it.closed.Swap(true) {
		return
	}
	it.finishSpan()
	it.item.lent.poison()
	it.valid, it.item.e = false, nil
	t := it.txn
	if jumped := it.scan.Close(); jumped > 0 {
		t.db.tree.Jumped(jumped)
	}
	t.mu.Lock()
	// If the transaction has ended meanwhile, source and hold belong to the orphan,
	// which the garbage collector may be releasing at this moment.
	o := it.orphan
	if o == nil {
		it.unlink()
	}
	t.mu.Unlock()
	if o != nil {
		o.release()
		return
	}
	it.scan.Source().Close()
	t.drop()
}

// unlink takes it off the list of open iterators.
func (it *Iterator) unlink() {
	if it.prev != nil {
		it.prev.next = it.next
	} else {
		it.txn.open = it.next
	}
	if it.next != nil {
		it.next.prev = it.prev
	}
	it.next, it.prev = nil, nil
}

// orphaned takes it off the list of its transaction, which ends, and returns
// what it still holds.
func (it *Iterator) orphaned() *orphan {
	it.orphan = &orphan{src: it.scan.Source(), txn: it.txn}
	it.unlink()
	return it.orphan
}

// orphan is what an iterator holds: it is released by the iterator or, if that
// has leaked, when that is collected.
type orphan struct {
	src  iterator.Iterator
	txn  *transaction
	done atomic.Bool
}

func (o *orphan) release() {
	if o.done.Swap(true) {
		return
	}
	o.src.Close()
	o.txn.drop()
}
