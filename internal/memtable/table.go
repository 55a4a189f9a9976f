// Package memtable holds the newest entries in memory: an append-only arena of
// records, a hash table that finds a key's versions, and sorted views that are
// built only when someone walks in order.
package memtable

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	keyhash "github.com/brockdb/brock/internal/hash"
	"github.com/brockdb/brock/internal/invariant"
	"github.com/brockdb/brock/internal/tombstone"
)

// ErrFull says that a table's address space of 4 GiB has no room for an entry.
var ErrFull = errors.New("brock: memtable is full")

// MaxBytes is what a table surely holds: while Bytes and the size of the next
// entries, 64 bytes more for each, stay below it, Add doesn't fail with ErrFull.
const MaxBytes = math.MaxInt32

// Options configure a Table.
type Options struct {
	Seed  uint64 // of the hashes given to Add, which invariant builds check
	Limit int    // bytes at which the owner means to seal it; sizes the arena's blocks; 0 = 64 MB
}

// Table is a set of entries and range tombstones. One goroutine calls Add and
// DeleteRange; meanwhile any number may call the other methods, except Sorted and
// Shadowed, which need that the writer has stopped, and Release. An entry is seen
// by calls that begin after its Add returned. Keys and values handed out lie in
// the arena and are valid until Release.
//
// The methods that look entries up know nothing of tombstones: whoever asks them
// asks Tombstones too.
type Table struct {
	seed  uint64
	limit int64
	arena arena
	slots atomic.Pointer[slots]

	// What is published: entries added << refBits | the end of the last record.
	extent atomic.Uint64
	newest atomic.Uint64 // greatest version of an entry
	oldest atomic.Uint64 // least version of an entry
	marks  atomic.Pointer[[]mark]

	tombstones atomic.Pointer[tombstone.Set] // nil: there are none

	keys     int      // distinct keys; the writer's
	shadowed []ref    // records replaced by a later Add of the same key and version
	spent    []*slots // outgrown tables, which a reader may still hold

	folding sync.Mutex
	view    atomic.Pointer[view]
}

// New returns an empty table.
func New(o Options) *Table {
	if o.Limit <= 0 {
		o.Limit = 64 << 20
	}
	t := &Table{seed: o.Seed, limit: int64(o.Limit)}
	t.arena.blockMax = min(max(o.Limit/16, 1<<20), largestBlock)
	t.view.Store(&view{})
	return t
}

// Add inserts a copy of e, whose key has the given hash. Of two entries with the
// same key and version the later one replaces the earlier. After an error the
// table is as it was.
func (t *Table) Add(hash uint64, e *entry.Entry) error {
	if len(e.Key) == 0 || len(e.Key) > entry.MaxKey || e.Version > entry.MaxVersion ||
		len(e.Value) > entry.MaxValue || e.Separated && e.Handle.Length > entry.MaxValue {
		return fmt.Errorf("%w: key of %d and value of %d bytes at version %d",
			errs.ErrInvalid, len(e.Key), e.ValueLen(), e.Version)
	}
	if invariant.Enabled {
		invariant.Check(hash == keyhash.Sum(t.seed, e.Key), "a key was added with the hash of another")
	}
	s, err := t.room()
	if err != nil {
		return err
	}
	slot, head := t.find(s, hash, e.Key)
	place, r, err := t.write(e)
	if err != nil {
		return err
	}
	count := t.extent.Load()>>refBits + 1
	if count%markEvery == 1 {
		t.mark(place, count-1)
	}
	v := uint64(e.Version)
	if v > t.newest.Load() || count == 1 {
		t.newest.Store(v)
	}
	if v < t.oldest.Load() || count == 1 {
		t.oldest.Store(v)
	}
	if t.link(head, place, r) {
		s.words[slot].Store(hash&^refMask | uint64(place))
	}
	t.extent.Store(count<<refBits | uint64(t.arena.next))
	return nil
}

// DeleteRange adds a tombstone for the keys in [lo, hi), which are copied.
// Whoever asks for Tombstones after it has returned finds it.
func (t *Table) DeleteRange(lo, hi []byte, v entry.Version) error {
	d := tombstone.Tombstone{Lo: bytes.Clone(lo), Hi: bytes.Clone(hi), Version: v}
	if !d.Valid() {
		return fmt.Errorf("%w: range of a bound of %d and one of %d bytes at version %d", errs.ErrInvalid, len(lo), len(hi), v)
	}
	t.tombstones.Store(t.Tombstones().With(d))
	return nil
}

// Tombstones are those added so far; nil if there are none.
func (t *Table) Tombstones() *tombstone.Set { return t.tombstones.Load() }

// room returns the slots, with room for one more key.
func (t *Table) room() (*slots, error) {
	s := t.slots.Load()
	if s != nil && t.keys < s.limit {
		return s, nil
	}
	var g *slots
	var err error
	if s == nil {
		g, err = newSlots(firstSlots)
	} else {
		g, err = s.grown(t.nextSlots(s))
	}
	if err != nil {
		return nil, err
	}
	if s != nil {
		t.spent = append(t.spent, s)
	}
	t.slots.Store(g)
	return g, nil
}

// nextSlots is the size that slots grow to: four times, while a table of such
// records would need that before it is sealed, for moving them is a good part of
// the cost of an Add; then twice.
func (t *Table) nextSlots(s *slots) int {
	n := len(s.words)
	if each := max(t.arena.used(t.arena.next)/int64(t.keys), 1); int64(4*s.limit) <= t.limit/each {
		return 4 * n
	}
	return 2 * n
}

// link puts r, not yet published, before the versions of its key that are older,
// and reports whether it is the new head, which the caller publishes.
func (t *Table) link(head, place ref, r *record) bool {
	if head == 0 {
		t.keys++
		return true
	}
	v, before := r.version(), (*record)(t.arena.at(head))
	if v > before.version() {
		r.older.Store(uint32(head))
		return true
	}
	if v == before.version() {
		r.older.Store(before.older.Load())
		t.shadowed = append(t.shadowed, head)
		return true
	}
	for {
		next := ref(before.older.Load())
		if next != 0 {
			n := (*record)(t.arena.at(next))
			if n.version() > v {
				before = n
				continue
			}
			if n.version() == v {
				t.shadowed = append(t.shadowed, next)
				next = ref(n.older.Load())
			}
		}
		r.older.Store(uint32(next))
		before.older.Store(uint32(place))
		return false
	}
}

// find returns the newest version of key and its slot; without one, 0 and the
// empty slot that would take it.
func (t *Table) find(s *slots, hash uint64, key []byte) (slot uint64, head ref) {
	mask := uint64(len(s.words) - 1)
	for i := hash >> s.shift; ; i = (i + 1) & mask {
		w := s.words[i].Load()
		if w == 0 {
			return i, 0
		}
		if (w^hash)&^refMask == 0 {
			head = ref(w & refMask)
			if bytes.Equal((*record)(t.arena.at(head)).keyBytes(), key) {
				return i, head
			}
		}
	}
}

// Get makes dst the newest version of key that is not newer than at, and reports
// whether there is one. hash is the key's.
func (t *Table) Get(key []byte, hash uint64, at entry.Version, dst *entry.Entry) bool {
	s := t.slots.Load()
	if s == nil {
		return false
	}
	_, head := t.find(s, hash, key)
	for head != 0 {
		r := (*record)(t.arena.at(head))
		if r.version() <= at {
			t.read(r, dst)
			return true
		}
		head = ref(r.older.Load())
	}
	return false
}

// Newest returns the greatest version of key, and whether there is one.
func (t *Table) Newest(key []byte, hash uint64) (entry.Version, bool) {
	s := t.slots.Load()
	if s == nil {
		return 0, false
	}
	_, head := t.find(s, hash, key)
	if head == 0 {
		return 0, false
	}
	return (*record)(t.arena.at(head)).version(), true
}

// Len is the number of entries added, shadowed ones included.
func (t *Table) Len() int { return int(t.extent.Load() >> refBits) }

// Empty reports whether nothing was added, neither entries nor tombstones.
func (t *Table) Empty() bool { return t.Len() == 0 && t.Tombstones() == nil }

// tombstoneBytes is about what a tombstone takes beside its bounds.
const tombstoneBytes = 512

// Bytes is the memory in use: records, values, hash slots and tombstones, but
// not views.
func (t *Table) Bytes() int64 {
	n := t.arena.used(ref(t.extent.Load() & refMask))
	if d := t.Tombstones(); d != nil {
		n += int64(d.Bytes()) + int64(d.Len())*tombstoneBytes
	}
	if s := t.slots.Load(); s != nil {
		n += int64(len(s.mem))
	}
	return n
}

// MinVersion is the least version of what was added; 0 if the table is empty.
func (t *Table) MinVersion() entry.Version {
	v, d := entry.Version(t.oldest.Load()), t.Tombstones()
	if d == nil || v != 0 && v < d.MinVersion() {
		return v
	}
	return d.MinVersion()
}

// MaxVersion is the greatest version of what was added; 0 if the table is empty.
func (t *Table) MaxVersion() entry.Version {
	return max(entry.Version(t.newest.Load()), t.Tombstones().MaxVersion())
}

// Shadowed calls fn for the handle of each separated value whose entry was
// replaced by a later Add of the same key and version: nobody owns these values
// any more. The writer has stopped.
func (t *Table) Shadowed(fn func(entry.Handle)) {
	for _, p := range t.shadowed {
		if r := (*record)(t.arena.at(p)); r.word&flagSeparated != 0 {
			fn(r.handle())
		}
	}
}

// Release frees the table's memory. Nobody may use the table, its iterators, or
// keys and values from it afterwards.
func (t *Table) Release() {
	t.view.Store(&view{})
	for _, s := range t.spent {
		free(s.mem)
	}
	if s := t.slots.Load(); s != nil {
		free(s.mem)
	}
	t.spent, t.shadowed = nil, nil
	t.slots.Store(nil)
	t.tombstones.Store(nil)
	t.extent.Store(0)
	t.arena.release()
}

// walk calls fn for each record from the place from to end, in order of arrival,
// until fn returns false.
func (t *Table) walk(from, end ref, fn func(ref, *record) bool) {
	for p := max(from, 1); p != end; {
		r := (*record)(t.arena.at(p))
		if r.keyLen() == 0 {
			p = ref(r.older.Load())
			invariant.Check(p != 0, "the walk met the end of a block that has no successor")
			continue
		}
		if !fn(p, r) {
			return
		}
		p += ref(r.size() / 8)
	}
}
