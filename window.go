package brock

import (
	"sync"

	"github.com/brockdb/brock/internal/entry"
)

// window reads the separated values of the entries ahead of an iterator, on
// goroutines that end with the values: an iterator at rest has none.
type window struct {
	it     *Iterator
	slots  []slot // a ring
	head   int    // the iterator's item
	count  int    // entries held, the item included
	turned bool   // the direction of the entries ahead
	more   bool   // the sources are at an entry that is not in a slot yet
}

// slot is an entry ahead, and its value if that is separated.
type slot struct {
	entry   entry.Entry
	key     []byte
	value   []byte
	err     error
	pending sync.WaitGroup
}

const (
	maxPrefetch    = 1024
	windowReaders  = 8 // goroutines a refill starts at most
	minWindowSlots = 2
)

func newWindow(it *Iterator, n int) *window {
	return &window{it: it, slots: make([]slot, max(n, minWindowSlots))}
}

// begin starts from where the sources are; ok says that they are at an entry.
func (w *window) begin(ok, turned bool) bool {
	w.stop()
	w.head, w.count, w.turned, w.more = 0, 0, turned, ok
	w.fill()
	return w.count > 0
}

// move goes on to the next entry in the direction turned.
func (w *window) move(turned bool) bool {
	if turned != w.turned {
		return w.begin(w.turn() && w.it.moveRaw(turned), turned)
	}
	w.head, w.count = (w.head+1)%len(w.slots), w.count-1
	if w.count <= len(w.slots)/2 {
		w.fill()
	}
	return w.count > 0
}

// turn brings the sources back to the iterator's item.
func (w *window) turn() bool {
	at := &w.slots[w.head]
	ok := w.it.seekRaw(at.key, false)
	for ok && w.it.opts.AllVersions && w.it.raw().Version != at.entry.Version {
		ok = w.it.moveRaw(false)
	}
	return ok
}

// fill reads on until every slot is taken, and starts to read their values.
func (w *window) fill() {
	var fetch []*slot
	for w.more && w.count < len(w.slots) {
		s := &w.slots[(w.head+w.count)%len(w.slots)]
		s.pending.Wait()
		s.take(w.it.raw())
		if s.entry.Separated {
			fetch = append(fetch, s)
		}
		w.count++
		w.more = w.it.moveRaw(w.turned)
	}
	readers := min(windowReaders, len(fetch))
	for i := range fetch {
		fetch[i].pending.Add(1)
	}
	for r := range readers {
		go func() {
			for i := r; i < len(fetch); i += readers {
				fetch[i].read(w.it.txn.pin)
			}
		}()
	}
}

func (s *slot) take(e *entry.Entry) {
	s.key = append(s.key[:0], e.Key...)
	s.entry, s.value, s.err = *e, nil, nil
	s.entry.Key = s.key
}

func (s *slot) read(p pin) {
	defer s.pending.Done()
	s.value, s.err = pinValue(p, s.key, &s.entry)
}

// wait returns the value once it is read.
func (s *slot) wait() ([]byte, error) {
	s.pending.Wait()
	return s.value, s.err
}

// show makes the entry at the head the item.
func (w *window) show(it *Item) {
	s := &w.slots[w.head]
	it.place(w.it.txn, &s.entry)
	if s.entry.Separated {
		it.ahead = s
	}
}

// stop waits for the values that are being read.
func (w *window) stop() {
	for i := range w.slots {
		w.slots[i].pending.Wait()
	}
}
