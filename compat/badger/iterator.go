package badger

import (
	"bytes"

	"github.com/dgraph-io/ristretto/v2/z"

	"github.com/brockdb/brock"
)

// IteratorOptions says which items an Iterator walks, and how.
type IteratorOptions struct {
	PrefetchSize   int  // has no meaning: Brock reads ahead by what earlier scans have used
	PrefetchValues bool // values will be asked for; without it none is read before Item.Value
	Reverse        bool // from the greatest key to the least
	AllVersions    bool // all versions that are kept, deletes too, newest first; with Reverse last
	InternalAccess bool // also the keys of the store itself

	prefixIsKey bool   // all versions of one key, which is Prefix
	Prefix      []byte // only keys that begin with it
	SinceTs     uint64 // only versions that are greater
}

// DefaultIteratorOptions walks all pairs forward.
var DefaultIteratorOptions = IteratorOptions{PrefetchValues: true, PrefetchSize: 100}

// Iterator walks the keys that its transaction saw when the iterator was made, in order. It begins at no
// item: call Rewind or Seek. One goroutine at a time may use it. End it by Close.
type Iterator struct {
	// ThreadId is the caller's: Stream numbers its goroutines by it.
	ThreadId int
	// Alloc is the caller's: Stream keeps there what it makes of the items.
	Alloc *z.Allocator

	txn    *Txn
	opt    IteratorOptions
	under  *brock.Iterator // nil: it could not begin
	src    source          // nil: the items are those of under
	item   Item            // of under; src has its own
	at     *Item           // the item that it is at; nil: none
	error  error           // why it has ended early
	closed bool
	empty  bool // the options leave out all that the transaction sees

	undoFrom   int       // part of the transaction's undo log that it must not see
	next, prev *Iterator // in the list of open iterators of an update
}

// source yields items in the order of an iterator. An empty key of seek is the begin.
type source interface {
	seek(key []byte)
	advance()
	current() *Item // nil at the end
	failure() error // why it has ended early
}

// NewIterator returns an iterator over what the transaction sees now: what it writes later is hidden. It
// panics with ErrDiscardedTxn after the end of the transaction, and with ErrDBClosed after Close.
func (txn *Txn) NewIterator(opt IteratorOptions) *Iterator {
	switch {
	case txn.discarded:
		panic(ErrDiscardedTxn)
	case txn.db.IsClosed():
		panic(ErrDBClosed)
	}
	it := &Iterator{txn: txn, opt: opt}
	it.begin()
	return it
}

// NewKeyIterator returns an iterator over all versions of key. It panics if opt.Prefix is set.
func (txn *Txn) NewKeyIterator(key []byte, opt IteratorOptions) *Iterator {
	if len(opt.Prefix) > 0 {
		panic("opt.Prefix should be nil for NewKeyIterator.")
	}
	opt.Prefix, opt.prefixIsKey, opt.AllVersions = key, true, true
	return txn.NewIterator(opt)
}

// begin makes the iterator of Brock.
func (it *Iterator) begin() {
	t := it.txn
	if t.brock == nil {
		it.error = t.failure()
		return
	}
	it.closed = false
	it.empty = it.opt.SinceTs > 0 && t.readTs <= it.opt.SinceTs
	if t.db.opt.managedTxns {
		it.beginManaged()
		return
	}
	o := brock.IteratorOptions{
		Reverse: it.opt.Reverse, KeysOnly: !it.opt.PrefetchValues,
		AllVersions: it.opt.AllVersions, Since: it.opt.SinceTs,
	}
	switch {
	case it.opt.prefixIsKey:
		o.Lower = it.opt.Prefix
		o.Upper = append(bytes.Clone(it.opt.Prefix), 0)
	case !it.opt.Reverse:
		// Not in reverse: there Rewind goes to the prefix itself, and callers append 0xff to it and seek.
		o.Prefix = it.opt.Prefix
	}
	it.under = t.brock.NewIterator(o)
	it.item = Item{txn: t, source: it.under.Item()}
	if t.update {
		it.enter()
	}
}

// enter adds it to the open iterators of an update.
func (it *Iterator) enter() {
	t := it.txn
	if it.next = t.open; it.next != nil {
		it.next.prev = it
	}
	t.open = it
	if t.undo != nil {
		it.undoFrom = len(t.undo.log)
		t.undo.from = it.undoFrom
	}
}

// leave takes it out of the open iterators.
func (it *Iterator) leave() {
	t := it.txn
	switch {
	case it.prev != nil:
		it.prev.next = it.next
	case t.open == it:
		t.open = it.next
	}
	if it.next != nil {
		it.next.prev = it.prev
	}
	it.next, it.prev = nil, nil
	if t.open == nil {
		t.undo = nil
	}
}

// Close ends the iterator. It may be called more than once. A Seek or Rewind after it begins anew.
func (it *Iterator) Close() {
	if it.closed {
		return
	}
	it.closed, it.at, it.src = true, nil, nil
	if it.under != nil {
		_ = it.under.Close() // its error is known, as each move asks for it
		if it.txn.update {   // else other iterators of the transaction may be on other goroutines
			it.leave()
		}
	}
}

// Err returns the error because of which the iterator has ended early; nil if there was none. Badger's
// iterators have no such method. View, Update and Commit return the error, too.
func (it *Iterator) Err() error { return it.error }

// Item returns the item that the iterator is at. It is valid until the next move. At no item it has no
// key.
func (it *Iterator) Item() *Item {
	if it.at == nil {
		return &Item{txn: it.txn}
	}
	it.txn.noteRead(it.at.key)
	return it.at
}

// Valid reports whether the iterator is at an item, and that has the prefix.
func (it *Iterator) Valid() bool {
	switch {
	case it.at == nil:
		return false
	case it.opt.prefixIsKey:
		return bytes.Equal(it.at.Key(), it.opt.Prefix)
	case len(it.opt.Prefix) == 0, !it.opt.Reverse:
		return true
	}
	return bytes.HasPrefix(it.at.Key(), it.opt.Prefix)
}

// ValidForPrefix reports whether it is valid, and at a key that begins with prefix.
func (it *Iterator) ValidForPrefix(prefix []byte) bool {
	return it.Valid() && bytes.HasPrefix(it.at.Key(), prefix)
}

// Rewind moves to the first item in the direction of the walk: with Reverse and a Prefix, to the key
// that is Prefix or the one before.
func (it *Iterator) Rewind() { it.Seek(nil) }

// Seek moves to key or, if there is no such item, to the next one in the direction of the walk. An empty
// key is Rewind.
func (it *Iterator) Seek(key []byte) {
	it.at = nil
	if it.closed && !it.txn.discarded {
		it.begin()
	}
	if it.under == nil {
		return
	}
	if err := it.txn.checkReadable(); err != nil {
		it.error = err
		return
	}
	if len(key) > 0 {
		it.txn.noteRead(key) // also if there is nothing to find: Badger counts what is sought
	} else {
		key = it.opt.Prefix
	}
	if it.empty {
		return
	}
	if it.error = it.hideLaterWrites(); it.error != nil {
		it.txn.fail(it.error)
		return
	}
	if it.src == nil {
		it.under.Seek(key)
	} else {
		it.src.seek(key)
	}
	it.settle()
}

// Next moves to the next item. At no item it does nothing.
func (it *Iterator) Next() {
	if it.at == nil {
		return
	}
	if it.src == nil {
		it.under.Next()
	} else {
		it.src.advance()
	}
	it.settle()
}

// settle makes the iterator be at the item of its source, behind those that it does not show.
func (it *Iterator) settle() {
	for {
		if it.src != nil {
			it.at = it.src.current()
		} else if it.at = nil; it.under.Valid() {
			it.at = &it.item
		}
		if it.at == nil {
			it.noteEnd()
			return
		}
		if !it.hides(it.at.Key()) && !it.isCovered() {
			return
		}
		if it.src == nil {
			it.under.Next()
		} else {
			it.src.advance()
		}
	}
}

// hides reports whether a key is the store's own, or banned.
func (it *Iterator) hides(key []byte) bool {
	if len(key) > 0 && key[0] == badgerPrefix[0] && bytes.HasPrefix(key, badgerPrefix) {
		return !it.opt.InternalAccess
	}
	return it.txn.db.checkBanned(key) != nil
}

// isCovered reports whether it is at the version that the transaction reads, and the transaction has
// written the key: of two versions of one number Badger shows one.
func (it *Iterator) isCovered() bool {
	t := it.txn
	if !it.opt.AllVersions || t.writes == 0 || t.readTs == 0 || it.at != &it.item || it.item.source.Version() != t.readTs {
		return false
	}
	own, err := t.hadOwn(it.item.Key(), it.undoFrom)
	if err != nil {
		it.error = readError(err)
		t.fail(it.error)
	}
	return own
}

// noteEnd notes why the source has ended, if that was early.
func (it *Iterator) noteEnd() {
	var err error
	if it.src != nil {
		err = it.src.failure()
	} else {
		err = it.under.Err()
	}
	if err == nil {
		return
	}
	it.error = readError(err)
	it.txn.fail(it.error)
	it.txn.db.opt.Errorf("badger: an iterator has ended early: %v", err)
}
