package chunk

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/offheap"
	"github.com/brockdb/brock/internal/disk/pageio"
)

const seed = 0x1234_5678_9abc_def1

var owner = Owner{UUID: [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, Num: 7}

// built is a finished chunk with the entries that were added to it.
type built struct {
	Info
	image   []byte
	offset  int64
	prefix  []byte
	entries []entry.Entry
}

// open returns a Chunk that verifies pages on first touch, as on a mapped file.
func (b *built) open() *Chunk {
	pages := pageio.PagesOf(b.offset + int64(len(b.image)))
	file := &pageio.Paged{Name: "000007.run", ID: owner.ID(), Read: func([]byte, int64) error { return nil }, Verified: pageio.NewPageBits(pages)}
	return &Chunk{Layout: b.Layout, Data: b.image, File: file, Page: int(b.offset / PageSize), Offset: b.offset, TrailerChecksum: b.TrailerChecksum}
}

// build puts entries into chunks, as a run's writer does.
func build(t testing.TB, entries []entry.Entry) (chunks []*built) {
	t.Helper()
	b := NewBuilder()
	t.Cleanup(b.Release)
	offset, from := int64(0), 0
	finish := func(to int) {
		bound := b.Size()
		image, info, _ := b.Finish(&owner, offset, nil)
		if len(image) > bound || len(image) != info.Layout.Size() {
			t.Fatalf("chunk of %d bytes, Size said at most %d, its layout says %d", len(image), bound, info.Layout.Size())
		}
		info.First, info.Last = bytes.Clone(info.First), bytes.Clone(info.Last)
		chunks = append(chunks, &built{Info: info, image: bytes.Clone(image), offset: offset, prefix: info.First[:info.Prefix], entries: entries[from:to]})
		offset, from = offset+int64(len(image)), to
	}
	for i := range entries {
		e := &entries[i]
		h := checksum.HashKey(seed, e.Key)
		done := b.Add(e, h)
		if done == Full {
			finish(i)
			done = b.Add(e, h)
		}
		want := NewKey
		if i > 0 && bytes.Equal(entries[i-1].Key, e.Key) {
			want = Older
		}
		if done != want {
			t.Fatalf("entry %d: outcome %d, want %d", i, done, want)
		}
	}
	if !b.Empty() {
		finish(len(entries))
	}
	return chunks
}

// someEntries makes entries of all forms, in order: keys from n names of various
// lengths after a prefix, with several versions, kinds, expiries and handles.
func someEntries(rng *rand.Rand, n int) (all []entry.Entry) {
	prefix := bytes.Repeat([]byte{'p'}, rng.IntN(30))
	names := map[string]bool{}
	for range n {
		key := fmt.Appendf(prefix[:len(prefix):len(prefix)], "%0*d", 1+rng.IntN(20), rng.IntN(10*n))
		if rng.IntN(40) == 0 {
			key = append(key, bytes.Repeat([]byte{'x'}, rng.IntN(3*maxSuffix))...)
		}
		if rng.IntN(100) == 0 {
			key = key[rng.IntN(len(key)):]
		}
		names[string(key)] = true
	}
	base := rng.Uint64N(uint64(entry.MaxVersion) / 2)
	for key := range names {
		versions := map[entry.Version]bool{}
		for range 1 + rng.IntN(3) {
			v := entry.Version(base + rng.Uint64N(1<<20))
			if rng.IntN(50) == 0 {
				v = entry.Version(rng.Uint64N(uint64(entry.MaxVersion))) + 1
			}
			if !versions[v] {
				versions[v] = true
				all = append(all, someEntry(rng, []byte(key), v))
			}
		}
	}
	slices.SortFunc(all, func(a, b entry.Entry) int { return entry.Compare(&a, &b) })
	return all
}

func someEntry(rng *rand.Rand, key []byte, v entry.Version) entry.Entry {
	e := entry.Entry{Key: key, Version: v, Kind: entry.Set, Value: make([]byte, rng.IntN(60))}
	for i := range e.Value {
		e.Value[i] = byte(rng.Uint32())
	}
	switch rng.IntN(12) {
	case 0:
		e.Kind, e.Value = entry.Delete, nil
	case 1:
		e.Kind = entry.SetLatest
	case 2:
		e.Value = make([]byte, maxInline-2+rng.IntN(5)) // around the longest that the short form has
	case 3, 4, 5:
		e.Value, e.Separated = nil, true
		e.Handle = entry.Handle{Segment: entry.FileNum(3 + rng.IntN(5)), Offset: 8 * rng.Uint64N(1<<32), Length: rng.Uint64N(1 << 31)}
		switch rng.IntN(6) {
		case 0:
			e.Raw = 1 + rng.Uint32N(1<<30)
		case 1:
			e.Handle.Offset = 8 << 32 // too far for the short form
		case 2:
			e.Handle.Segment = 1 << 40
		}
	}
	if rng.IntN(4) == 0 {
		e.Meta, e.Expires = byte(rng.IntN(3)), rng.Uint64N(3)<<rng.IntN(60)
	}
	return e
}

// same compares all that a chunk keeps; an empty value may be nil.
func same(a, b *entry.Entry) bool {
	return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) && a.Handle == b.Handle && a.Version == b.Version &&
		a.Expires == b.Expires && a.Kind == b.Kind && a.Meta == b.Meta && a.Separated == b.Separated && a.Raw == b.Raw
}

// each runs fn on the chunks of random entries, among them runs of several chunks.
func each(t *testing.T, seeds uint64, fn func(t *testing.T, rng *rand.Rand, chunks []*built)) {
	for s := range seeds {
		rng := rand.New(rand.NewPCG(s, 1))
		n := 1 + rng.IntN(1<<rng.IntN(10))
		if s%8 == 7 {
			n = 5000
		}
		entries := someEntries(rng, n)
		if t.Run(fmt.Sprintf("seed=%d/entries=%d", s, len(entries)), func(t *testing.T) { fn(t, rng, build(t, entries)) }); t.Failed() {
			return
		}
	}
}

// What was added is read, by key and version and in order; Check agrees.
func TestRoundTrip(t *testing.T) {
	each(t, 24, func(t *testing.T, rng *rand.Rand, chunks []*built) {
		for _, b := range chunks {
			c := b.open()
			checkAll(t, c, b)
			for i := range b.entries {
				checkGet(t, c, b, b.entries[i].Key, b.entries[i].Version)
				checkGet(t, c, b, b.entries[i].Key, entry.Version(rng.Uint64N(uint64(entry.MaxVersion))))
				absent := append(bytes.Clone(b.entries[i].Key), byte(rng.IntN(2)))
				checkGet(t, c, b, absent, entry.MaxVersion)
			}
		}
	})
}

// checkAll compares the chunk with its entries, and what Check counts.
func checkAll(t *testing.T, c *Chunk, b *built) {
	t.Helper()
	i := 0
	c.Check(&owner, func(err error) { t.Fatal(err) }, func(e *entry.Entry, newest bool) uint64 {
		if i == len(b.entries) || !same(e, &b.entries[i]) {
			t.Fatalf("entry %d of %d: %+v", i, len(b.entries), e)
		}
		if first := i == 0 || !bytes.Equal(b.entries[i-1].Key, e.Key); newest != first {
			t.Fatalf("entry %d: newest is %v", i, newest)
		}
		i++
		return checksum.HashKey(seed, e.Key)
	})
	if i != len(b.entries) || b.Stats.Entries != uint64(i) {
		t.Fatalf("%d entries were met, %d counted, %d added", i, b.Stats.Entries, len(b.entries))
	}
	if trailer, err := c.Trailer(); err != nil || trailer.Stats != b.Stats {
		t.Fatalf("trailer: %v, %v; the builder counted %v", trailer.Stats, err, b.Stats)
	}
}

// checkGet compares Get with the entries. The first key of a chunk that goes on
// with older versions of the key before is not indexed: First finds it.
func checkGet(t *testing.T, c *Chunk, b *built, key []byte, at entry.Version) {
	t.Helper()
	i := lowerBound(b.entries, key)
	for i < len(b.entries) && bytes.Equal(b.entries[i].Key, key) && b.entries[i].Version > at {
		i++
	}
	want := Absent
	switch {
	case i < len(b.entries) && bytes.Equal(b.entries[i].Key, key):
		want = Found
	case i == len(b.entries) && bytes.Equal(b.Last, key) && c.Data[lastOffset(c)]&flagOlder != 0:
		want = Newer
	}
	if !bytes.HasPrefix(key, b.prefix) {
		return // the reader of a run looks at the prefix first
	}
	var e entry.Entry
	got, err := c.Get(key[c.Prefix:], checksum.HashKey(seed, key), at, &e)
	if err == nil && got == Absent && bytes.Equal(key, b.First) {
		got, err = c.GetFirst(at, &e)
	}
	if err != nil || got != want {
		t.Fatalf("get %q at %d: %v, %v; want %v", key, at, got, err, want)
	}
	e.Key = key
	if got == Found && !same(&e, &b.entries[i]) {
		t.Fatalf("get %q at %d: %+v, want %+v", key, at, e, b.entries[i])
	}
}

func lastOffset(c *Chunk) int {
	var it Cursor
	it.Open(c, make([]byte, c.Prefix))
	it.Last()
	return it.Offset()
}

func lowerBound(all []entry.Entry, key []byte) int {
	return sort.Search(len(all), func(i int) bool { return bytes.Compare(all[i].Key, key) >= 0 })
}

// A cursor moves as an index into the sorted entries does, in both directions,
// after seeks and from any part of the chunk.
func TestCursorMovesAsASlice(t *testing.T) {
	each(t, 24, func(t *testing.T, rng *rand.Rand, chunks []*built) {
		for _, b := range chunks {
			var it Cursor
			it.Open(b.open(), b.prefix)
			at := -1 // index of the cursor's entry; -1 and len are beyond the ends
			check := func(what string, ok bool) {
				t.Helper()
				inside := at >= 0 && at < len(b.entries)
				if ok != inside || it.Err() != nil {
					t.Fatalf("%s: %v at %d of %d, %v", what, ok, at, len(b.entries), it.Err())
				}
				if inside && !same(it.Entry(), &b.entries[at]) {
					t.Fatalf("%s: at %d is %+v, want %+v", what, at, it.Entry(), b.entries[at])
				}
			}
			for range 3 * len(b.entries) {
				switch n := rng.IntN(20); {
				case at < 0 || n == 0:
					at = 0
					check("First", it.First())
				case at == len(b.entries) || n == 1:
					at = len(b.entries) - 1
					check("Last", it.Last())
				case n < 8:
					at++
					check("Next", it.Next())
				case n < 14:
					at--
					check("Prev", it.Prev())
				case n < 15:
					if at = len(b.entries); !it.SeekPart(rng.Float64()) { // in the midst of a long last entry
						check("SeekPart", false)
						break
					}
					at = slices.IndexFunc(b.entries, func(e entry.Entry) bool { return same(&e, it.Entry()) })
					check("SeekPart", true)
				default:
					key := bytes.Clone(b.entries[rng.IntN(len(b.entries))].Key)
					if n := rng.IntN(3); n == 0 {
						key = append(key, 0)
					} else if n == 1 && len(key) > len(b.prefix) {
						key[len(key)-1]--
					}
					at = lowerBound(b.entries, key)
					check("SeekGE", it.SeekGE(key[len(b.prefix):]))
					if at == len(b.entries) && rng.IntN(2) == 0 {
						at--
						check("Prev from the end", it.Prev())
					}
				}
			}
		}
	})
}

// Where the words of many fences and entries are equal, whole suffixes decide: a seek comes to the
// first entry that is not less, and a step back to the one before it. Forms of all kinds are passed.
func TestSeekAmongEqualWords(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	all := []entry.Entry{someEntry(rng, []byte("a"), 1)} // so that the chunk's prefix ends before the words
	for i := range 1500 {
		all = append(all, someEntry(rng, fmt.Appendf(nil, "equal words %d %04d", i/1000, 2*i), 1))
	}
	for _, b := range build(t, all) {
		var it Cursor
		it.Open(b.open(), b.prefix)
		for i := range b.entries {
			key := b.entries[i].Key
			for _, key := range [][]byte{key, append(bytes.Clone(key), 0), key[:len(key)-1]} {
				if !bytes.HasPrefix(key, b.prefix) {
					continue
				}
				at := lowerBound(b.entries, key)
				if ok := it.SeekGE(key[len(b.prefix):]); ok != (at < len(b.entries)) || ok && !same(it.Entry(), &b.entries[at]) {
					t.Fatalf("SeekGE of %q: %v, %q, want entry %d of %d, %v", key, ok, it.Entry().Key, at, len(b.entries), it.Err())
				}
				if ok := it.Prev(); ok != (at > 0) || ok && !same(it.Entry(), &b.entries[at-1]) {
					t.Fatalf("Prev after SeekGE of %q: %v, %q, want entry %d, %v", key, ok, it.Entry().Key, at-1, it.Err())
				}
			}
		}
	}
}

// What doesn't follow the last entry is refused, also by the next chunk.
// A cursor that may lend the chunk's memory yields the keys that others do, in chunks of one
// long key and of many, and keeps no memory for keys that are the prefix itself.
func TestLentKeys(t *testing.T) {
	long := func(b byte, n int, end string) entry.Entry {
		return entry.Entry{Key: append(bytes.Repeat([]byte{b}, n), end...), Version: 1, Kind: entry.Set, Value: []byte{b}}
	}
	var all []entry.Entry
	for i := range 3 {
		all = append(all, long('a'+byte(i), MaxEntries*3/4, ""))
	}
	for i := range 3 {
		all = append(all, long('f', MaxEntries/2, fmt.Sprint(i)))
	}
	all = append(all, long('f', MaxEntries/2, "9"+string(bytes.Repeat([]byte{'x'}, maxSuffix+1))))
	all = append(all, long('g', 100, "short"), long('h', MaxEntries*3/4, "x"), long('i', MaxEntries*3/4, ""))
	lent := &Cursor{Mem: new(offheap.Buffer), Lent: true}
	defer lent.Free()
	i, alone := 0, 0
	for _, b := range build(t, all) {
		// As where a copier has the chunk, which is gone when the next one is opened.
		c := b.open()
		c.Data = bytes.Clone(b.image)
		prefix, err := c.SharedPrefix()
		if err != nil {
			t.Fatal(err)
		}
		lent.Open(c, prefix)
		if lent.KeyRoom() == 0 {
			alone++
		}
		from := i
		for ok := lent.First(); ok; ok = lent.Next() {
			if !same(lent.Entry(), &all[i]) {
				t.Fatalf("entry %d: a key of %d bytes, want %d", i, len(lent.Entry().Key), len(all[i].Key))
			}
			i++
		}
		for j, ok := i-1, lent.Last(); ok; j, ok = j-1, lent.Prev() {
			if j < from || !same(lent.Entry(), &all[j]) {
				t.Fatalf("entry %d, backward: a key of %d bytes", j, len(lent.Entry().Key))
			}
		}
		if lent.Err() != nil {
			t.Fatal(lent.Err())
		}
		clear(c.Data)
	}
	if i != len(all) || alone < 4 {
		t.Errorf("%d entries, want %d; %d chunks without memory for keys", i, len(all), alone)
	}
}

func TestDisorder(t *testing.T) {
	b := NewBuilder()
	defer b.Release()
	add := func(key string, v entry.Version) Outcome {
		return b.Add(&entry.Entry{Key: []byte(key), Version: v, Kind: entry.Set}, checksum.HashKey(seed, []byte(key)))
	}
	for _, c := range []struct {
		key     string
		version entry.Version
		want    Outcome
	}{
		{"m", 5, NewKey}, {"m", 5, Disorder}, {"m", 6, Disorder}, {"l", 9, Disorder}, {"m", 4, Older},
		{"", 9, Disorder}, {"ma", 9, NewKey}, {"m", 3, Disorder}, {"n", 1, NewKey},
	} {
		if got := add(c.key, c.version); got != c.want {
			t.Errorf("%q version %d: %v, want %v", c.key, c.version, got, c.want)
		}
	}
	_, _, _ = b.Finish(&owner, 0, nil)
	if got := []Outcome{add("mz", 9), add("n", 1), add("n", 0)}; !slices.Equal(got, []Outcome{Disorder, Disorder, Older}) {
		t.Errorf("in the next chunk: %v", got)
	}
}

// A chunk ends below MaxEntries; only one entry alone may be longer. Its limits
// of lengths, of versions and of keys with nothing in common are kept.
func TestLimits(t *testing.T) {
	long := func(key byte, value int) entry.Entry {
		return entry.Entry{Key: []byte{key}, Version: 1, Kind: entry.Set, Value: make([]byte, value)}
	}
	key := func(n int, last byte) entry.Entry {
		return entry.Entry{Key: append(bytes.Repeat([]byte{'k'}, n-1), last), Version: 1, Kind: entry.Set}
	}
	var shrinking []entry.Entry // each shares one byte less with the first
	for i := range 3000 {
		shrinking = append(shrinking, key(3000-i, 'z'))
	}
	slices.SortFunc(shrinking, func(a, b entry.Entry) int { return entry.Compare(&a, &b) })
	var versions []entry.Entry
	for v := range entry.Version(40000) {
		versions = append(versions, entry.Entry{Key: []byte("k"), Version: 40000 - v, Kind: entry.Set, Value: make([]byte, 40)})
	}
	for _, c := range []struct {
		name    string
		entries []entry.Entry
		chunks  int
	}{
		{"nothing", nil, 0},
		{"an empty value", []entry.Entry{long('a', 0)}, 1},
		{"a chunk of one long entry", []entry.Entry{long('a', 1), long('b', 2*MaxEntries), long('c', 1)}, 3},
		{"two halves", []entry.Entry{long('a', MaxEntries/2-200), long('b', MaxEntries/2-200)}, 1},
		{"two that are a little more", []entry.Entry{long('a', MaxEntries/2), long('b', MaxEntries/2)}, 2},
		{"the longest keys", []entry.Entry{key(entry.MaxKey, 'a'), key(entry.MaxKey, 'b')}, 1},
		{"the greatest version and expiry", []entry.Entry{{Key: []byte("k"), Version: entry.MaxVersion, Expires: ^uint64(0), Kind: entry.Set}, {Key: []byte("k"), Kind: entry.Delete}}, 1},
		{"prefixes that shrink", shrinking, 3},
		{"versions over several chunks", versions, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			chunks := build(t, c.entries)
			if len(chunks) != c.chunks {
				t.Errorf("%d chunks, want %d", len(chunks), c.chunks)
			}
			for _, b := range chunks {
				if b.End > MaxEntries && len(b.entries) > 1 {
					t.Errorf("%d entries of %d bytes", len(b.entries), b.End)
				}
				checkAll(t, b.open(), b)
				for i := 0; i < len(b.entries); i += 1 + len(b.entries)/50 {
					checkGet(t, b.open(), b, b.entries[i].Key, b.entries[i].Version)
					checkGet(t, b.open(), b, b.entries[i].Key, 0)
				}
			}
		})
	}
}
