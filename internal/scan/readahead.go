package scan

import (
	"runtime"
	"slices"
	"sync"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/pageio"
)

// readahead holds the entries ahead of a scan's user, and has their separated
// values brought near: what the disk must be asked for is read by goroutines that
// end with the values, so that a scan at rest has none; the processor is asked for
// the rest, many at once.
type readahead struct {
	scan     *Scan
	ring     []*Ahead // the beginning of all
	all      []*Ahead // kept for the next scan, without keys and values
	head     int      // the user's entry
	count    int      // entries held, the user's included
	turned   bool     // the direction of the entries ahead
	more     bool     // the walk is at an entry that is not in the ring yet
	adaptive bool     // made and unmade as values are asked for
	unasked  int      // entries in a row whose separated value nobody asked for
	ordered  int      // of the other ones, those in a row that followed each other
	fetch    []*Ahead // scratch of fill
}

// Ahead is an entry ahead, and its value if that is separated.
type Ahead struct {
	entry   entry.Entry
	key     []byte
	value   []byte
	err     error
	reading bool // value and err are, or will be, set by a goroutine
	asked   bool
	pending sync.WaitGroup
}

// NewAhead returns e, which stays as it is, as an entry whose value Fetch may read.
func NewAhead(e *entry.Entry) *Ahead { return &Ahead{entry: *e} }

// MaxPrefetch is how many values a scan reads ahead at most.
const MaxPrefetch = 1024

const (
	fetchers = 8  // goroutines that a refill starts at most
	aheadKey = 40 // bytes of key that an Ahead has room for at first

	// How far Config.Prefetch = 0 reads ahead.
	nearLength    = 16       // entries while values are in memory
	farLength     = 64       // entries once the disk is asked
	jumpsToAdapt  = 4        // begin after this many values that lie elsewhere than those before;
	orderPerJump  = 4        // one of them is forgotten after this many that follow each other
	largeValue    = 16 << 10 // bytes from which a value counts as one that lies elsewhere
	orderedToEnd  = 64       // end after this many values that follow each other,
	unaskedToEnd  = 32       // or after this many values that nobody asked for;
	jumpsToReturn = 1000     // then begin again after this many values elsewhere
)

// unused are those that no scan has. No goroutine knows their entries; keys,
// which were handed out, are never used again.
var unused = sync.Pool{New: func() any { return new(readahead) }}

func newReadahead(s *Scan, n int) *readahead {
	r := unused.Get().(*readahead)
	*r = readahead{scan: s, all: r.all, fetch: r.fetch}
	r.grow(max(n, 2))
	return r
}

// leave gives r back to other scans, when no value is being read any more.
func (r *readahead) leave() {
	r.stop()
	for _, a := range r.ring {
		*a = Ahead{}
	}
	r.scan, r.ring = nil, nil
	if clear(r.fetch[:cap(r.fetch)]); len(r.all) <= farLength {
		unused.Put(r)
	}
}

// grow adds entries until there are n.
func (r *readahead) grow(n int) {
	had := len(r.ring)
	r.fetch = append(append(r.fetch[:0], r.ring[r.head:]...), r.ring[:r.head]...)
	copy(r.ring, r.fetch) // the ring begins with its head
	if len(r.all) < n {
		fresh := make([]Ahead, n-len(r.all))
		r.all = slices.Grow(r.all, len(fresh))
		for i := range fresh {
			r.all = append(r.all, &fresh[i])
		}
	}
	r.ring, r.head = r.all[:n], 0
	// New memory for keys, in one piece: the user of an earlier scan may still hold its
	// keys.
	keys := make([]byte, (n-had)*aheadKey)
	for i, a := range r.ring[had:] {
		a.key = keys[i*aheadKey : i*aheadKey : (i+1)*aheadKey]
	}
}

// begin starts from where the walk is; ok says that it is at an entry.
func (r *readahead) begin(ok, turned bool) bool {
	r.stop()
	r.head, r.count, r.turned, r.more = 0, 0, turned, ok
	r.fill()
	return r.count > 0 && !r.scan.closed
}

// move goes on to the next entry in the direction turned.
func (r *readahead) move(turned bool) bool {
	// The walk is at the far end: it has to come back before it can turn.
	if turned != r.turned {
		return r.begin(r.turn() && r.scan.move(turned), turned)
	}
	if a := r.ring[r.head]; a.entry.Separated {
		r.unasked++
		if a.asked {
			r.unasked = 0
			if r.ordered++; r.scan.jumped(&a.entry) {
				r.ordered = 0
			}
		}
	}
	r.head, r.count = (r.head+1)%len(r.ring), r.count-1
	// Half a ring at a time, so that a refill asks for many values at once.
	if r.count <= len(r.ring)/2 {
		r.fill()
	}
	return r.count > 0 && !r.scan.closed
}

// turn brings the walk back to the user's entry.
func (r *readahead) turn() bool {
	at := r.ring[r.head]
	ok := r.scan.seek(at.key, false)
	for ok && r.scan.all && r.scan.walk.entry.Version != at.entry.Version {
		ok = r.scan.move(false)
	}
	return ok
}

// current is the user's entry.
func (r *readahead) current() *entry.Entry { return &r.ring[r.head].entry }

// ahead is its value; nil if that is inline.
func (r *readahead) ahead() *Ahead {
	if a := r.ring[r.head]; a.entry.Separated {
		return a
	}
	return nil
}

// fill reads on until the ring is full, and has the values brought near.
func (r *readahead) fill() {
	first := r.count
	for r.more && r.count < len(r.ring) {
		r.ring[(r.head+r.count)%len(r.ring)].take(r.scan.walk.entry)
		r.count++
		r.more = r.scan.move(r.turned)
	}
	r.fetch = r.fetch[:0]
	for i := first; i < r.count; i++ {
		if a := r.ring[(r.head+i)%len(r.ring)]; a.entry.Separated {
			r.fetch = append(r.fetch, a)
		}
	}
	if r.scan.closed { // by the filter
		return
	}
	// Entries that are mostly on the disk need more of them on their way.
	far := Fetch(r.scan.Values(), r.fetch, r.scan)
	if r.adaptive && 2*far > r.count-first && len(r.ring) < farLength {
		r.grow(farLength)
	}
}

// take makes e the entry.
func (a *Ahead) take(e *entry.Entry) {
	a.pending.Wait()
	a.key = append(a.key[:0], e.Key...)
	a.entry, a.value, a.err, a.reading, a.asked = *e, nil, nil, false, false
	a.entry.Key = a.key
}

// Fetch has the separated values of list read that the disk must be asked for,
// touches the others, and returns how many are read. It changes the order of list.
// The goroutines that read have ended once each of list was waited for; until then
// they keep owner, which holds from.
func Fetch(from Values, list []*Ahead, owner any) (read int) {
	far := list[:0]
	for _, a := range list {
		if !from.touch(&a.entry) {
			far = append(far, a)
		}
	}
	for _, a := range far {
		a.reading = true
		a.pending.Add(1)
	}
	// Values in memory are left to the reader: a goroutine costs more than they do.
	if len(far) > 0 {
		readAll(from, slices.Clone(far), owner) // list is soon for other ones
	}
	return len(far)
}

// readAll starts goroutines that read the values of list.
func readAll(from Values, list []*Ahead, owner any) {
	readers := min(fetchers, len(list))
	for r := range readers {
		go func() {
			for i := r; i < len(list); i += readers {
				list[i].read(from)
			}
			runtime.KeepAlive(owner)
		}()
	}
}

func (a *Ahead) read(from Values) {
	defer a.pending.Done()
	a.value, a.err = from.Value(a.entry.Key, &a.entry, nil)
}

// Value returns the value once it is there.
func (a *Ahead) Value(from Values) ([]byte, error) {
	a.asked = true
	a.Wait()
	if a.reading {
		return a.value, a.err
	}
	v, err := from.Value(a.entry.Key, &a.entry, nil)
	if a.entry.Raw != 0 { // is not decoded twice
		a.value, a.err, a.reading = v, err, true
	}
	return v, err
}

// Wait returns when nobody reads the value.
func (a *Ahead) Wait() { a.pending.Wait() }

// stop waits for the values that are being read.
func (r *readahead) stop() {
	for _, a := range r.ring {
		a.Wait()
	}
}

// Asked notes that the user has read the separated value of the entry that the scan
// is at, and is about to move. When values are far from each other, reading ahead
// begins: Entry is then another one, of the same content. Values that lie one after
// the other come without it.
func (s *Scan) Asked() {
	if s.readahead != nil {
		return // knows by itself what was asked for
	}
	switch {
	case s.jumped(s.walk.entry):
		if s.far += orderPerJump; s.far >= jumpsToAdapt*orderPerJump {
			s.adapt()
		}
	case s.far > 0:
		s.far--
	}
}

// jumped reports whether the value of e, which was asked for, had to be waited
// for: it lies elsewhere than the one before, or is large.
func (s *Scan) jumped(e *entry.Entry) bool {
	return s.locality.pass(s.pin, e) || e.Handle.Length >= largeValue
}

// adapt begins to read ahead, because values lie far from each other.
func (s *Scan) adapt() {
	defer pageio.Guard(pageio.Arm(), &s.err, pageio.SomeFile)
	s.far = 0
	r := newReadahead(s, nearLength)
	r.adaptive = true
	if r.begin(true, s.turned) {
		s.readahead = r
		s.simplify()
	}
}

// idle reports whether adaptive reading ahead has been of no use for some time.
func (r *readahead) idle() bool { return r.unasked >= unaskedToEnd || r.ordered >= orderedToEnd }

// unadapt moves on and no longer reads ahead: the walk is brought back to the
// user's entry, which is the readahead's until it has moved.
func (s *Scan) unadapt(turned bool) bool {
	r := s.readahead
	if r.unasked >= unaskedToEnd {
		s.far = -(jumpsToReturn - jumpsToAdapt) * orderPerJump
	}
	r.stop()
	s.readahead = nil
	s.simplify()
	ok := r.turn() && s.move(turned)
	r.leave()
	return ok
}
