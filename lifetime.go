package brock

import (
	"sync/atomic"

	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/view"
)

// hold takes a hold of the pin for an iterator. It returns false if the last hold was given
// back: then the pin may be another reader's already.
func (t *transaction) hold() bool {
	for n := t.holds.Load(); n > 0; n = t.holds.Load() {
		if t.holds.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// adopt enters an iterator, which has a hold of the pin and can be closed, into the list of
// open iterators. It returns false if the transaction has just ended.
func (t *transaction) adopt(it *Iterator) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	// The hold comes before the look at the state, and the end of the transaction changes the
	// state before it looks at the holds and at the list. So it either finds the iterator in
	// the list or refuses it here.
	if t.state.Load() != txnOpen {
		return false
	}
	t.iterators++
	t.lends() // its keys
	it.next = t.open
	if t.open != nil {
		t.open.prev = it
	}
	t.open = it
	return true
}

// endUnadopted ends an iterator whose transaction has ended before it was adopted.
func (it *Iterator) endUnadopted() {
	it.err = ErrTxnDone
	it.closed.Store(true)
	s := it.scan
	it.scan = nil
	s.Close()
	s.Free()
	it.txn.dropHold()
}

// releaseOnce ends the iterator, once. The transaction may end at the same time.
func (it *Iterator) releaseOnce() {
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
	o, s := it.orphan, it.scan
	if it.scan = nil; o == nil {
		it.unlink()
	}
	t.mu.Unlock()
	if o != nil {
		o.release()
		return
	}
	s.Free()
	t.dropHold()
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
	it.orphan = &orphan{src: it.scan.Source(), pin: it.txn.pin}
	it.unlink()
	return it.orphan
}

// orphan is what an open iterator holds once its transaction has ended. The iterator releases it
// or, if that has leaked, the garbage collector does. It does not refer to the transaction, nor to
// the DB: one of the user's functions in Options may lead to the iterator.
type orphan struct {
	src  iterator.Iterator
	pin  *view.Pin // shared with the others that hold it
	done atomic.Bool
}

func (o *orphan) release() {
	if o.done.Swap(true) {
		return
	}
	o.src.Close()
	o.pin.Release()
}
