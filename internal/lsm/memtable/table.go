// Package memtable holds the newest entries in memory: an append-only arena of records, a hash
// table that finds a key's versions, and sorted views that are built only for iterators. The
// usual skip list would pay for order at each insert, though only walks and flushes need it.
package memtable

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/rangedel"
)

// MaxBytes (2 GiB - 1) is how many bytes a table can hold for sure. Add does not return
// ErrFull as long as Bytes, plus the next entries, plus 64 bytes for each of them, is below it.
const MaxBytes = math.MaxInt32

// Options configure a Table.
type Options struct {
	Seed  uint64 // of the hashes of keys
	Limit int    // bytes at which the owner seals it; sizes the arena's blocks; 0: not known
}

// Table is a set of entries and range deletes. One goroutine, the writer, calls Add and
// DeleteRange. Others may call all other methods meanwhile, except two: Shadowed needs a writer
// that adds nothing meanwhile, and Release must be the last call. A call that begins after Add has
// returned sees the entry. Keys and values that are returned lie in the arena, and are valid until
// Release.
//
// The methods that look up entries ignore range deletes: the caller must also ask RangeDeletes.
type Table struct {
	seed  uint64                  // of key hashes
	limit int64                   // bytes at which it is sealed
	arena arena                   // the records of entries
	byKey atomic.Pointer[buckets] // hash table; nil while there are no entries

	// What readers may see: number of entries << refBits | the end of the last record. It is one
	// word so that the two always agree.
	extent atomic.Uint64
	marks  marks // where new versions begin

	rangeDeletes atomic.Pointer[rangedel.Set] // range deletes; nil: there are none
	bounds       arena                        // their bounds

	// Used by the writer only:
	keys     int        // distinct keys
	shadowed []ref      // records that a later Add of the same key and version has replaced
	outgrown []*buckets // former, smaller hash tables, which readers may still probe

	extending sync.Mutex           // held while a new view is made
	view      atomic.Pointer[view] // the latest sorted view; never nil
}

// New returns an empty table.
func New(o Options) *Table {
	t := &Table{seed: o.Seed, limit: int64(o.Limit)}
	t.arena.blockMax = min(max(o.Limit/16, 1<<20), largestBlock)
	t.bounds.blockMax = t.arena.blockMax
	t.arena.outside = new(outside)
	t.view.Store(&view{arena: &t.arena})
	return t
}

// Hash returns the hash of a key, for Get and Newest.
func (t *Table) Hash(key []byte) uint64 { return checksum.HashKey(t.seed, key) }

// Add inserts a copy of e. Of two entries with the same key and version, the later one replaces
// the earlier one. After an error the table is unchanged.
func (t *Table) Add(e *entry.Entry) error {
	if !isValid(e) {
		return fmt.Errorf("%w: key of %d and value of %d bytes at version %d",
			errs.ErrInvalid, len(e.Key), e.ValueLen(), e.Version)
	}
	// Everything that can fail comes before the record is linked.
	b, err := t.growBuckets(1)
	if err != nil {
		return err
	}
	h := t.Hash(e.Key)
	bucket, head := b.findBucket(&t.arena, h, e.Key)
	place, r, err := t.arena.writeRecord(e)
	if err != nil {
		return err
	}
	// Readers find the record by its bucket or by extent. So both are stored after the record is
	// complete and has its mark. Atomic stores publish all that was written before them.
	count := t.extent.Load() >> refBits
	if count%markEvery == 0 {
		t.marks.addMark(place, count)
	}
	t.marks.noteVersion(uint64(e.Version))
	if t.linkVersion(head, place, r) {
		b.words[bucket].Store(h&^refMask | uint64(place))
	}
	// Last: a reader that has this extent may rely on everything above.
	t.extent.Store((count+1)<<refBits | uint64(t.arena.next))
	return nil
}

// isValid reports whether e is within the limits of keys, values and versions.
func isValid(e *entry.Entry) bool {
	return len(e.Key) > 0 && len(e.Key) <= entry.MaxKey && e.Version <= entry.MaxVersion &&
		len(e.Value) <= entry.MaxValue && (!e.Separated || e.Handle.Length <= entry.MaxValue)
}

// DeleteRange adds a range delete for the keys in [lo, hi). lo and hi are copied. A call of
// RangeDeletes that begins after DeleteRange has returned finds it. After an error the table is
// unchanged.
func (t *Table) DeleteRange(lo, hi []byte, v entry.Version) error {
	d := rangedel.Delete{Lo: lo, Hi: hi, Version: v}
	if !d.Valid() {
		return fmt.Errorf("%w: range of a bound of %d and one of %d bytes at version %d", errs.ErrInvalid, len(lo), len(hi), v)
	}
	// The bounds are copied into an arena of their own: walks of the entries don't meet them.
	at, err := t.bounds.reserveBytes(len(lo) + len(hi))
	if err != nil {
		return err
	}
	copies := t.bounds.at(at)
	d.Lo, d.Hi = copies.bytesAt(0, len(lo)), copies.bytesAt(len(lo), len(hi))
	copy(d.Lo, lo)
	copy(d.Hi, hi)
	t.rangeDeletes.Store(t.RangeDeletes().With(d))
	return nil
}

// RangeDeletes returns the range deletes added so far; nil if there are none.
func (t *Table) RangeDeletes() *rangedel.Set { return t.rangeDeletes.Load() }

// growBuckets returns the buckets, with room for n more keys.
func (t *Table) growBuckets(n int) (*buckets, error) {
	old := t.byKey.Load()
	if old != nil && t.keys+n <= old.limit {
		return old, nil
	}
	size := firstBuckets
	if old != nil {
		size = t.nextBuckets(old)
	}
	// Each time at least double, so that moving keys costs a constant number of moves for each.
	for bucketLimit(size) < t.keys+n {
		size *= 2
	}
	// Readers may still probe the outgrown table, so it is freed with the Table. All the former
	// tables together are smaller than the new one.
	var b *buckets
	var err error
	if old == nil {
		b, err = newBuckets(size)
	} else {
		b, err = old.copyGrown(size)
	}
	if err != nil {
		return nil, err
	}
	if old != nil {
		t.outgrown = append(t.outgrown, old)
	}
	t.byKey.Store(b)
	return b, nil
}

// nextBuckets returns the size of the next hash table. It is four times that of b if, with
// records as long as those so far, the table will need that many before it is sealed: to move
// keys to larger tables is a good part of the cost of Add. Else it is twice that of b.
func (t *Table) nextBuckets(b *buckets) int {
	n := len(b.words)
	if each := max(t.arena.bytesBefore(t.arena.next)/int64(max(t.keys, 1)), 1); int64(4*b.limit) <= t.limit/each {
		return 4 * n
	}
	return 2 * n
}

// linkVersion puts r into the chain of versions of its key, which begins at head, newest first. It
// returns true if r is the newest: then the caller must store it in the bucket.
func (t *Table) linkVersion(head, place ref, r *record) bool {
	if head == 0 {
		t.keys++
		return true
	}
	// Commits come in order of versions, so the new entry is nearly always the newest.
	v, before := r.version(), t.arena.at(head)
	// older is set before the caller publishes r: a reader never finds a chain with a gap.
	if v > before.version() {
		r.older.Store(uint32(head))
		return true
	}
	// The same key and version: r takes the place of head, which stays in the arena for those who
	// read it now.
	if v == before.version() {
		r.older.Store(before.older.Load())
		t.shadowed = append(t.shadowed, head)
		return true
	}
	// An older version than the newest: find its place in the chain.
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
		// In this order: the chain is whole for readers at each moment.
		r.older.Store(uint32(next))
		before.older.Store(uint32(place))
		return false
	}
}

// Get sets dst to the newest version of key that is not newer than at, and reports whether
// there is one. hash is the hash of key.
func (t *Table) Get(key []byte, hash uint64, at entry.Version, dst *entry.Entry) bool {
	b := t.byKey.Load()
	if b == nil {
		return false
	}
	_, head := b.findBucket(&t.arena, hash, key)
	// The chain is ordered newest first, so the first version up to at counts.
	for newer := 0; head != 0; newer++ {
		r := t.arena.at(head)
		if r.version() <= at {
			t.arena.readRecord(r, dst)
			return true
		}
		if newer == newerMax {
			return t.getSorted(key, at, dst)
		}
		head = ref(r.older.Load())
	}
	return false
}

// newerMax is how many versions newer than at Get passes one by one. If a key has more, Get
// searches a sorted view.
const newerMax = 1 << 12

// getSorted is Get by a binary search of a sorted view, for keys with very many versions.
func (t *Table) getSorted(key []byte, at entry.Version, dst *entry.Entry) bool {
	v := t.extendView()
	var newest *record
	for _, level := range v.levels {
		i := v.seekVersion(level, key, at)
		if i == len(level) {
			continue
		}
		r := t.arena.at(level[i].place)
		// Of two entries with the same version, that of the later level is the newer one.
		if bytes.Equal(r.keyBytes(), key) && (newest == nil || r.version() >= newest.version()) {
			newest = r
		}
	}
	if newest == nil {
		return false
	}
	t.arena.readRecord(newest, dst)
	return true
}

// Newest returns the greatest version of key, and whether there is one.
func (t *Table) Newest(key []byte, hash uint64) (entry.Version, bool) {
	b := t.byKey.Load()
	if b == nil {
		return 0, false
	}
	_, head := b.findBucket(&t.arena, hash, key)
	if head == 0 {
		return 0, false
	}
	return t.arena.at(head).version(), true
}

// Len is the number of entries that were added, including shadowed ones.
func (t *Table) Len() int { return int(t.extent.Load() >> refBits) }

// Empty reports whether nothing was added, neither entries nor range deletes.
func (t *Table) Empty() bool { return t.Len() == 0 && t.RangeDeletes() == nil }

// Bytes is the memory in use: records, values, hash buckets and range deletes, but not views.
func (t *Table) Bytes() int64 {
	n := t.arena.bytesBefore(ref(t.extent.Load()&refMask)) + t.arena.outside.bytes.Load()
	if d := t.RangeDeletes(); d != nil {
		const padding = 7 // of the bounds of one, at most
		n += int64(d.Bytes()+d.Len()*padding) + int64(d.Memory())
	}
	if b := t.byKey.Load(); b != nil {
		n += int64(len(b.mem))
	}
	return n
}

// Fits reports whether the table can hold n more bytes for sure: those of entries, and 64 for each
// of them.
func (t *Table) Fits(n int64) bool { return t.Bytes()+n < MaxBytes }

// MaxVersion is the greatest version of what was added; 0 if the table is empty.
func (t *Table) MaxVersion() entry.Version {
	return max(entry.Version(t.marks.newest.Load()), t.RangeDeletes().MaxVersion())
}

// Shadowed walks the handle of each separated value whose entry was replaced by a later Add of the
// same key and version: these values are garbage. The writer must not add anything during the call.
// The walk, at any time until Release, has what was replaced before the call.
func (t *Table) Shadowed() iter.Seq[entry.Handle] {
	list := t.shadowed
	return func(yield func(entry.Handle) bool) {
		for _, p := range list {
			if r := t.arena.at(p); r.word&flagSeparated != 0 && !yield(r.handle()) {
				return
			}
		}
	}
}

// Release frees the table's memory. Nobody may use the table, its iterators, or keys and values
// from it afterwards.
func (t *Table) Release() {
	// The old view has refs to records that are freed below.
	t.view.Store(&view{arena: &t.arena})
	for _, b := range t.outgrown {
		freeBlock(b.mem)
	}
	if b := t.byKey.Load(); b != nil {
		freeBlock(b.mem)
	}
	t.outgrown, t.shadowed = nil, nil
	t.byKey.Store(nil)
	t.rangeDeletes.Store(nil)
	t.extent.Store(0)
	t.arena.freeBlocks()
	t.arena.outside.freeBlocks()
	t.bounds.freeBlocks()
}

// extendView returns a sorted view of all entries that readers may see. It sorts those that were
// added since the last view.
func (t *Table) extendView() *view {
	extent := t.extent.Load()
	if v := t.view.Load(); v.end >= ref(extent&refMask) {
		return v
	}
	t.extending.Lock()
	defer t.extending.Unlock()
	// Others may have extended the view while this call waited for the lock.
	extent = t.extent.Load()
	v := t.view.Load()
	if v.end < ref(extent&refMask) {
		v = v.extendTo(ref(extent&refMask), int(extent>>refBits))
		t.view.Store(v)
	}
	return v
}

// Iterator walks all versions of all entries. It sees what was added before this call, and
// perhaps a little more. The call may sort what was added since the last one. Neither the call
// nor the walk makes the writer wait.
func (t *Table) Iterator() iterator.Iterator { return newCursor(t.extendView(), &t.marks) }
