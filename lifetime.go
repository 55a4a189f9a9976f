package brock

import (
	"sync/atomic"

	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/txn/scan"
	"github.com/brockdb/brock/internal/view"
)

// adoptIterator begins the scan of an iterator, and enters it into the list of open iterators. If the
// transaction has just ended, it returns ErrTxnDone: the pin may be another reader's already.
func (t *transaction) adoptIterator(it *Iterator, c *scan.Config) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	// The count comes before the look whether it is active, and the end of the transaction ends
	// that before it looks at the count and, with the lock, at the list. So it either finds the
	// iterator in the list, or it is noticed here.
	t.iterators.Add(1)
	if !t.active.Load() {
		return ErrTxnDone
	}
	it.scan = scan.Begin(c)
	t.noteLent() // its keys
	it.next = t.open
	if t.open != nil {
		t.open.prev = it
	}
	t.open = it
	return nil
}

// releaseOnce ends the iterator, once. The transaction may end at the same time.
func (it *Iterator) releaseOnce() {
	if it.scan == nil {
		return
	}
	it.finishSpan()
	it.item.lent.poison()
	it.valid, it.item.e = false, nil
	t := it.txn
	if jumped := it.scan.Close(); jumped > 0 {
		t.db.engine.Work.AddJumped(jumped)
	}
	t.mu.Lock()
	// If the transaction has ended meanwhile, the source belongs to the orphan, which the garbage
	// collector may be releasing at this moment. Else the lock keeps the pin until it is closed.
	o := it.orphan
	if o == nil {
		it.unlinkIterator()
		it.scan.FreeMemory()
	}
	it.scan = nil
	t.mu.Unlock()
	if o != nil {
		o.releaseOrphan()
	}
}

// unlinkIterator takes it off the list of open iterators.
func (it *Iterator) unlinkIterator() {
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

// makeOrphan takes it off the list of its transaction, which ends, and returns
// what it still holds.
func (it *Iterator) makeOrphan() *orphan {
	it.orphan = &orphan{src: it.scan.Source(), pin: it.txn.pin}
	it.unlinkIterator()
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

// releaseOrphan closes the source and gives back the pin, once.
func (o *orphan) releaseOrphan() {
	if o.done.Swap(true) {
		return
	}
	o.src.Close()
	o.pin.Release()
}
