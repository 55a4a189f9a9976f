// Package memtable holds the newest entries in memory: an append-only arena of
// records, a hash table that finds a key's versions, and sorted views that are
// built only for iterators.
package memtable

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	keyhash "github.com/brockdb/brock/internal/hash"
	"github.com/brockdb/brock/internal/invariant"
	"github.com/brockdb/brock/internal/iterator"
	"github.com/brockdb/brock/internal/tombstone"
)

// MaxBytes (2 GiB - 1) is what a table surely holds: while Bytes and the size of the
// next entries, 64 bytes more for each, stay below it, Add doesn't return ErrFull.
const MaxBytes = math.MaxInt32

// Options configure a Table.
type Options struct {
	Seed  uint64 // of the hashes given to Add, which invariant builds check
	Limit int    // bytes at which the owner seals it; sizes the arena's blocks; 0 = 64 MB
}

// Table is a set of entries and range tombstones. One goroutine calls Add and
// DeleteRange; meanwhile any number may call the other methods, except Sorted and
// Shadowed, which need that the writer has stopped, and Release. An entry is seen
// by calls that begin after its Add returned. Keys and values handed out lie in
// the arena and are valid until Release.
//
// The methods that look entries up know nothing of tombstones: ask Tombstones,
// too.
type Table struct {
	seed  uint64
	limit int64
	arena arena
	byKey atomic.Pointer[buckets] // nil while there are no entries

	// What is published: entries added << refBits | the end of the last record.
	extent atomic.Uint64
	marks  marks

	tombstones atomic.Pointer[tombstone.Set] // nil: there are none
	bounds     arena                         // of the tombstones

	keys     int        // distinct keys; the writer's
	shadowed []ref      // records replaced by a later Add of the same key and version
	spent    []*buckets // outgrown hash tables, which a reader may still use

	extending sync.Mutex // held while a new view is made
	view      atomic.Pointer[view]
}

// New returns an empty table.
func New(o Options) *Table {
	o.Limit = cmp.Or(o.Limit, 64<<20)
	t := &Table{seed: o.Seed, limit: int64(o.Limit)}
	t.arena.blockMax = min(max(o.Limit/16, 1<<20), largestBlock)
	t.bounds.blockMax = t.arena.blockMax
	t.view.Store(&view{arena: &t.arena})
	return t
}

// Add inserts a copy of e, whose key has the given hash. Of two entries with the
// same key and version the later one replaces the earlier. After an error the
// table is as it was.
func (t *Table) Add(hash uint64, e *entry.Entry) error {
	if !valid(e) {
		return fmt.Errorf("%w: key of %d and value of %d bytes at version %d",
			errs.ErrInvalid, len(e.Key), e.ValueLen(), e.Version)
	}
	if invariant.Enabled {
		invariant.Check(hash == keyhash.Sum(t.seed, e.Key), "a key was added with the hash of another")
	}
	b, err := t.room()
	if err != nil {
		return err
	}
	bucket, head := b.find(&t.arena, hash, e.Key)
	place, r, err := t.arena.write(e)
	if err != nil {
		return err
	}
	// Readers go by extent, stored last, or by the bucket: both lead to a record
	// that is complete and marked.
	count := t.extent.Load() >> refBits
	if count%markEvery == 0 {
		t.marks.add(place, count)
	}
	t.marks.widen(uint64(e.Version))
	if t.link(head, place, r) {
		b.words[bucket].Store(hash&^refMask | uint64(place))
	}
	t.extent.Store((count+1)<<refBits | uint64(t.arena.next))
	return nil
}

// valid reports whether e is within the limits of keys, values and versions.
func valid(e *entry.Entry) bool {
	return len(e.Key) > 0 && len(e.Key) <= entry.MaxKey && e.Version <= entry.MaxVersion &&
		len(e.Value) <= entry.MaxValue && (!e.Separated || e.Handle.Length <= entry.MaxValue)
}

// DeleteRange adds a tombstone for the keys in [lo, hi), which are copied.
// A call of Tombstones that begins after it has returned finds it. After an error the
// table is as it was.
func (t *Table) DeleteRange(lo, hi []byte, v entry.Version) error {
	d := tombstone.Tombstone{Lo: lo, Hi: hi, Version: v}
	if !d.Valid() {
		return fmt.Errorf("%w: range of a bound of %d and one of %d bytes at version %d", errs.ErrInvalid, len(lo), len(hi), v)
	}
	// The bounds are copied as a record, but of an arena that nobody walks.
	e := entry.Entry{Kind: entry.RangeDelete, Key: lo, Value: hi, Version: v}
	_, r, err := t.bounds.write(&e)
	if err != nil {
		return err
	}
	t.bounds.read(r, &e)
	d.Lo, d.Hi = e.Key, e.Value
	t.tombstones.Store(t.Tombstones().With(d))
	return nil
}

// Tombstones are those added so far; nil if there are none.
func (t *Table) Tombstones() *tombstone.Set { return t.tombstones.Load() }

// room returns the buckets, with room for one more key.
func (t *Table) room() (*buckets, error) {
	old := t.byKey.Load()
	if old != nil && t.keys < old.limit {
		return old, nil
	}
	// Readers may still probe the outgrown table, so it is freed with the Table.
	var b *buckets
	var err error
	if old == nil {
		b, err = newBuckets(firstBuckets)
	} else {
		b, err = old.grown(t.nextBuckets(old))
	}
	if err != nil {
		return nil, err
	}
	if old != nil {
		t.spent = append(t.spent, old)
	}
	t.byKey.Store(b)
	return b, nil
}

// nextBuckets is how many buckets there will be: four times as many, while a
// table of such records would need that before it is sealed, as moving them is a
// good part of the cost of an Add; then twice.
func (t *Table) nextBuckets(b *buckets) int {
	n := len(b.words)
	if each := max(t.arena.used(t.arena.next)/int64(t.keys), 1); int64(4*b.limit) <= t.limit/each {
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
	// Commits come in order of versions, so the new entry is nearly always the newest.
	v, before := r.version(), t.arena.at(head)
	if v > before.version() {
		r.older.Store(uint32(head))
		return true
	}
	// The same key and version: the later one takes the place of the earlier.
	if v == before.version() {
		r.older.Store(before.older.Load())
		t.shadowed = append(t.shadowed, head)
		return true
	}
	for {
		next := ref(before.older.Load())
		if next != 0 {
			n := t.arena.at(next)
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

// Get makes dst the newest version of key that is not newer than at, and reports
// whether there is one. hash is the key's.
func (t *Table) Get(key []byte, hash uint64, at entry.Version, dst *entry.Entry) bool {
	b := t.byKey.Load()
	if b == nil {
		return false
	}
	_, head := b.find(&t.arena, hash, key)
	for newer := 0; head != 0; newer++ {
		r := t.arena.at(head)
		if r.version() <= at {
			t.arena.read(r, dst)
			return true
		}
		if newer == newerMax {
			return t.getSorted(key, at, dst)
		}
		head = ref(r.older.Load())
	}
	return false
}

// newerMax is how many newer versions of a key Get passes one by one: the rest of a
// long history is searched.
const newerMax = 1 << 12

// getSorted is Get by a sorted view.
func (t *Table) getSorted(key []byte, at entry.Version, dst *entry.Entry) bool {
	v := t.extend()
	var newest *record
	for _, level := range v.levels {
		i := v.seekVersion(level, key, at)
		if i == len(level) {
			continue
		}
		r := t.arena.at(level[i].place)
		// Of equal entries that of the last level counts.
		if bytes.Equal(r.keyBytes(), key) && (newest == nil || r.version() >= newest.version()) {
			newest = r
		}
	}
	if newest == nil {
		return false
	}
	t.arena.read(newest, dst)
	return true
}

// Newest returns the greatest version of key, and whether there is one.
func (t *Table) Newest(key []byte, hash uint64) (entry.Version, bool) {
	b := t.byKey.Load()
	if b == nil {
		return 0, false
	}
	_, head := b.find(&t.arena, hash, key)
	if head == 0 {
		return 0, false
	}
	return t.arena.at(head).version(), true
}

// Len is the number of entries added, shadowed ones included.
func (t *Table) Len() int { return int(t.extent.Load() >> refBits) }

// Empty reports whether nothing was added, neither entries nor tombstones.
func (t *Table) Empty() bool { return t.Len() == 0 && t.Tombstones() == nil }

// boundsBytes is what the record of a tombstone's bounds takes beside them, at most.
const boundsBytes = headerSize + 8

// Bytes is the memory in use: records, values, hash buckets and tombstones, but
// not views.
func (t *Table) Bytes() int64 {
	n := t.arena.used(ref(t.extent.Load() & refMask))
	if d := t.Tombstones(); d != nil {
		n += int64(d.Bytes()) + int64(d.Len()*boundsBytes) + int64(d.Memory())
	}
	if b := t.byKey.Load(); b != nil {
		n += int64(len(b.mem))
	}
	return n
}

// MaxVersion is the greatest version of what was added; 0 if the table is empty.
func (t *Table) MaxVersion() entry.Version {
	return max(entry.Version(t.marks.newest.Load()), t.Tombstones().MaxVersion())
}

// Shadowed calls fn for the handle of each separated value whose entry was
// replaced by a later Add of the same key and version: these values are garbage.
// The writer has stopped.
func (t *Table) Shadowed(fn func(entry.Handle)) {
	for _, p := range t.shadowed {
		if r := t.arena.at(p); r.word&flagSeparated != 0 {
			fn(r.handle())
		}
	}
}

// Release frees the table's memory. Nobody may use the table, its iterators, or
// keys and values from it afterwards.
func (t *Table) Release() {
	// A view would lead to freed records.
	t.view.Store(&view{arena: &t.arena})
	for _, b := range t.spent {
		free(b.mem)
	}
	if b := t.byKey.Load(); b != nil {
		free(b.mem)
	}
	t.spent, t.shadowed = nil, nil
	t.byKey.Store(nil)
	t.tombstones.Store(nil)
	t.extent.Store(0)
	t.arena.release()
	t.bounds.release()
}

// extend returns a view of everything published.
func (t *Table) extend() *view {
	extent := t.extent.Load()
	if v := t.view.Load(); v.end >= ref(extent&refMask) {
		return v
	}
	t.extending.Lock()
	defer t.extending.Unlock()
	return t.extendLocked()
}

func (t *Table) extendLocked() *view {
	extent := t.extent.Load()
	v := t.view.Load()
	if v.end < ref(extent&refMask) {
		v = v.extended(ref(extent&refMask), int(extent>>refBits))
		t.view.Store(v)
	}
	return v
}

// Iterator walks the entries of the table, all versions. It sees what was added
// before this call, and perhaps a little more. Creating it may sort what was
// added since the last one was created; neither this nor the walk makes the
// writer wait.
func (t *Table) Iterator() iterator.Iterator { return newCursor(t.extend(), &t.marks) }

// Sorted is Iterator for a table that gets no more entries: it sorts all into
// one array first.
func (t *Table) Sorted() iterator.Iterator {
	t.extending.Lock()
	defer t.extending.Unlock()
	v := t.extendLocked().flat()
	t.view.Store(v)
	return newCursor(v, &t.marks)
}
