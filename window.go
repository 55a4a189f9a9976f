package brock

import (
	"runtime"
	"slices"
	"sync"

	"github.com/brockdb/brock/internal/entry"
)

// window holds the entries ahead of an iterator, and has their separated values
// brought near: what the disk must be asked for is read by goroutines that end
// with the values, so that an iterator at rest has none; the processor is asked
// for the rest, many at once.
type window struct {
	it       *Iterator
	slots    []*slot // a ring, the beginning of all
	all      []*slot // kept for the next iterator, without keys and values
	head     int     // the iterator's item
	count    int     // entries held, the item included
	turned   bool    // the direction of the entries ahead
	more     bool    // the sources are at an entry that is not in a slot yet
	adaptive bool    // made and unmade as values are asked for
	unasked  int     // items in a row whose separated value nobody asked for
	ordered  int     // of the other ones, those in a row that followed each other
	fetch    []*slot // scratch of fill
}

// slot is an entry ahead, and its value if that is separated.
type slot struct {
	entry   entry.Entry
	key     []byte
	value   []byte
	err     error
	ahead   bool // value and err are, or will be, set by a goroutine
	asked   bool
	pending sync.WaitGroup
}

const (
	maxPrefetch   = 1024
	windowReaders = 8  // goroutines a refill starts at most
	slotKey       = 40 // bytes of key that a slot has room for at first

	// The windows that IteratorOptions.Prefetch = 0 makes.
	nearWindow     = 16       // slots while values are in memory
	farWindow      = 64       // slots once the disk is asked
	jumpsToWindow  = 4        // values that lie elsewhere than those before, until there is one;
	orderPerJump   = 4        // one of them is forgotten after so many that follow each other
	largeValue     = 16 << 10 // is as good as elsewhere
	orderedToClose = 64       // values that follow each other, after which there is none
	unaskedToClose = 32       // likewise values that nobody asked for, and then
	jumpsToReturn  = 1000     // values elsewhere until there is one again
)

// windows are those that no iterator has. No goroutine knows their slots; keys,
// which an item hands out, are never used again.
var windows = sync.Pool{New: func() any { return new(window) }}

func newWindow(it *Iterator, n int) *window {
	w := windows.Get().(*window)
	*w = window{it: it, all: w.all, fetch: w.fetch}
	w.grow(max(n, 2))
	return w
}

// leave gives the window back, when no value is being read any more.
func (w *window) leave() {
	w.stop()
	for _, s := range w.slots {
		*s = slot{}
	}
	w.it, w.slots = nil, nil
	if clear(w.fetch[:cap(w.fetch)]); len(w.all) <= farWindow {
		windows.Put(w)
	}
}

// grow adds slots until there are n.
func (w *window) grow(n int) {
	had := len(w.slots)
	w.fetch = append(append(w.fetch[:0], w.slots[w.head:]...), w.slots[:w.head]...)
	copy(w.slots, w.fetch) // the ring begins with its head
	if len(w.all) < n {
		fresh := make([]slot, n-len(w.all))
		w.all = slices.Grow(w.all, len(fresh))
		for i := range fresh {
			w.all = append(w.all, &fresh[i])
		}
	}
	w.slots, w.head = w.all[:n], 0
	keys := make([]byte, (n-had)*slotKey)
	for i, s := range w.slots[had:] {
		s.key = keys[i*slotKey : i*slotKey : (i+1)*slotKey]
	}
}

// begin starts from where the sources are; ok says that they are at an entry.
func (w *window) begin(ok, turned bool) bool {
	w.stop()
	w.head, w.count, w.turned, w.more = 0, 0, turned, ok
	w.fill()
	return w.count > 0 && !w.it.closed.Load()
}

// move goes on to the next entry in the direction turned.
func (w *window) move(turned bool) bool {
	if turned != w.turned {
		return w.begin(w.turn() && w.it.moveRaw(turned), turned)
	}
	if s := w.slots[w.head]; s.entry.Separated {
		w.unasked++
		if s.asked {
			w.unasked = 0
			if w.ordered++; w.it.jumped(&s.entry) {
				w.ordered = 0
			}
		}
	}
	w.head, w.count = (w.head+1)%len(w.slots), w.count-1
	if w.count <= len(w.slots)/2 {
		w.fill()
	}
	return w.count > 0 && !w.it.closed.Load()
}

// turn brings the sources back to the iterator's item.
func (w *window) turn() bool {
	at := w.slots[w.head]
	ok := w.it.seekRaw(at.key, false)
	for ok && w.it.opts.AllVersions && w.it.raw().Version != at.entry.Version {
		ok = w.it.moveRaw(false)
	}
	return ok
}

// fill reads on until every slot is taken, and has their values brought near.
func (w *window) fill() {
	first := w.count
	for w.more && w.count < len(w.slots) {
		s := w.slots[(w.head+w.count)%len(w.slots)]
		s.take(w.it.raw())
		w.count++
		w.more = w.it.moveRaw(w.turned)
	}
	w.fetch = w.fetch[:0]
	for i := first; i < w.count; i++ {
		if s := w.slots[(w.head+i)%len(w.slots)]; s.entry.Separated {
			w.fetch = append(w.fetch, s)
		}
	}
	if w.it.closed.Load() { // by the filter
		return
	}
	far := bringNear(w.it.txn.values(), w.fetch, w.it)
	if w.adaptive && 2*far > w.count-first && len(w.slots) < farWindow {
		w.grow(farWindow)
	}
}

// take makes e the slot's entry.
func (s *slot) take(e *entry.Entry) {
	s.pending.Wait()
	s.key = append(s.key[:0], e.Key...)
	s.entry, s.value, s.err, s.ahead, s.asked = *e, nil, nil, false, false
	s.entry.Key = s.key
}

// bringNear has the separated values of slots read that the disk must be asked
// for, touches the others, and returns how many are read. The goroutines have
// ended when no slot is pending; until then they keep owner, which holds their source.
func bringNear(from values, slots []*slot, owner any) (read int) {
	far := slots[:0]
	for _, s := range slots {
		if !from.touch(&s.entry) {
			far = append(far, s)
		}
	}
	for _, s := range far {
		s.ahead = true
		s.pending.Add(1)
	}
	if len(far) > 0 {
		readAll(from, slices.Clone(far), owner) // the caller's slice is for other ones soon
	}
	return len(far)
}

// readAll starts goroutines that read the values of slots.
func readAll(from values, far []*slot, owner any) {
	readers := min(windowReaders, len(far))
	for r := range readers {
		go func() {
			for i := r; i < len(far); i += readers {
				far[i].read(from)
			}
			runtime.KeepAlive(owner)
		}()
	}
}

func (s *slot) read(from values) {
	defer s.pending.Done()
	s.value, s.err = from.value(s.entry.Key, &s.entry, nil)
}

// wait returns the value once it is there.
func (s *slot) wait(from values) ([]byte, error) {
	s.asked = true
	s.pending.Wait()
	if s.ahead {
		return s.value, s.err
	}
	v, err := from.value(s.entry.Key, &s.entry, nil)
	if s.entry.Raw != 0 { // is not decoded twice
		s.value, s.err, s.ahead = v, err, true
	}
	return v, err
}

// show makes the entry at the head the item.
func (w *window) show(it *Item) {
	s := w.slots[w.head]
	it.place(w.it.txn, &s.entry)
	if s.entry.Separated {
		it.ahead = s
	}
}

// stop waits for the values that are being read.
func (w *window) stop() {
	for _, s := range w.slots {
		s.pending.Wait()
	}
}

// passed notes that the value of the item was asked for, which is about to be
// left; a window is made when it helps. Values that lie one after the other come
// without one.
func (it *Iterator) passed() {
	it.asked = it.item.fetched
	if e := it.item.e; e != nil && e.Separated && !it.closed.Load() {
		switch {
		case it.jumped(e):
			if it.far += orderPerJump; it.far >= jumpsToWindow*orderPerJump {
				it.adapt()
			}
		case it.far > 0:
			it.far--
		}
	}
}

// jumped reports whether the value of e, which was asked for, had to be waited
// for: it lies elsewhere than the one before, or is large.
func (it *Iterator) jumped(e *entry.Entry) bool {
	return it.jumps.pass(it.txn.pin, e) || e.Handle.Length >= largeValue
}

// adapt makes a window, because values lie far from each other.
func (it *Iterator) adapt() {
	it.far = 0
	if !it.valid || !it.usable() {
		return
	}
	w := newWindow(it, nearWindow)
	w.adaptive = true
	if w.begin(true, it.turned) {
		it.window, it.plain = w, false
		w.show(&it.item)
	}
}

// idle reports whether an adaptive window has been of no use for some time.
func (w *window) idle() bool { return w.unasked >= unaskedToClose || w.ordered >= orderedToClose }

// unadapt moves on without the window; the sources are brought back to the item
// before, which is the window's until they have moved.
func (it *Iterator) unadapt(turned bool) bool {
	w := it.window
	if w.unasked >= unaskedToClose {
		it.far = -(jumpsToReturn - jumpsToWindow) * orderPerJump
	}
	w.stop()
	it.window = nil
	it.plain = it.isPlain()
	ok := w.turn() && it.moveRaw(turned)
	w.leave()
	return ok
}
