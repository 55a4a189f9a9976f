package chunk

import (
	"bytes"
	"fmt"

	"github.com/brockdb/brock/internal/base/entry"
)

// Check reads the whole chunk, which was not read before, and reports everything in it that is
// wrong: its checksums, and whether entries, their order, fences, index and statistics agree. The
// checks after a bad checksum are left out. fail gets what is wrong. each is called for every
// entry and returns the hash of its key; newest says that the entry is the first of its key in the
// chunk.
func (c *Chunk) Check(owner *Owner, fail func(error), each func(e *entry.Entry, newest bool) (hash uint64)) {
	t, err := c.Trailer()
	if err != nil {
		fail(err)
		return
	}
	// What would be decoded from damaged bytes is only the same damage under other names.
	if !c.VerifyAll(fail) {
		return
	}
	var head [HeaderSize]byte
	owner.putBytes(head[:])
	// No reader looks at the header. A salvage tells by it which store a lone file is from.
	if !bytes.HasPrefix(c.Data, head[:]) {
		fail(c.corruptAt(0, "chunk header %x, want %x", c.Data[:HeaderSize], head))
	}
	k := checker{c: c, t: t, fail: fail, each: each}
	k.checkEntries()
}

// checker checks the entries of one chunk.
type checker struct {
	c    *Chunk                                   // the chunk
	t    *Trailer                                 // its trailer, verified
	fail func(error)                              // gets what is wrong
	each func(e *entry.Entry, newest bool) uint64 // see Chunk.Check

	stats Stats // what the entries say so far
	block int   // index of the next fence to compare
}

// checkEntries walks the entries and compares order, marks, fences, index and statistics.
func (k *checker) checkEntries() {
	var it Cursor
	it.Open(k.c, k.t.prefix)
	var prev entry.Entry
	older := false
	for it.Next() {
		e, first := it.Entry(), k.stats.Entries == 0
		at := func(format string, args ...any) { k.fail(k.c.corruptAt(it.Offset(), format, args...)) }
		same := !first && string(e.Key) == string(prev.Key)
		if !first && entry.Compare(&prev, e) >= 0 {
			at("entry out of order")
		}
		// Gets and walks stop at an entry without the mark: what is behind it would be lost.
		if same != older && !first {
			at("mark of older versions is wrong")
		}
		if it.head&flagSep != 0 && e.Kind == entry.Delete {
			at("delete with a value")
		}
		k.checkFence(&it)
		hash := k.each(e, !same)
		if !same {
			k.checkIndex(e, hash, first, at)
		}
		k.stats.AddEntry(e, same)
		prev = entry.Entry{Key: append(prev.Key[:0], e.Key...), Version: e.Version}
		older = it.HasOlder()
	}
	if it.Err() != nil {
		k.fail(it.Err())
		return
	}
	// Blocks behind the last entry's beginning have fences that lead to the end.
	for ; k.block < k.t.fences(); k.block++ {
		if k.t.fenceStart(k.block) != k.c.End || k.t.fenceWord(k.block) != ^uint64(0) {
			k.fail(k.c.corruptAt(k.c.TrailerStart(), "fence %d is wrong", k.block))
		}
	}
	k.stats.Keys = k.t.Stats.Keys // the first may be the rest of the chunk before
	if k.stats != k.t.Stats {
		k.fail(k.c.corruptAt(k.c.TrailerStart(), "statistics %+v, entries say %+v", k.t.Stats, k.stats))
	}
}

// checkFence checks that the fences up to the current entry, which were not compared yet, lead to
// it.
func (k *checker) checkFence(it *Cursor) {
	// A block in which no entry begins has the fence of the next entry.
	for ; k.block <= it.Offset()>>k.t.shift; k.block++ {
		if k.t.fenceStart(k.block) != it.Offset() || k.t.fenceWord(k.block) != entry.Word(it.e.Key[it.plen:]) {
			k.fail(k.c.corruptAt(k.c.TrailerStart(), "fence %d is wrong", k.block))
		}
	}
}

// checkIndex looks the key up. The first one may not be indexed: its newer versions may be in the
// chunk before.
func (k *checker) checkIndex(e *entry.Entry, hash uint64, first bool, at func(string, ...any)) {
	var got entry.Entry
	res, err := k.c.Get(e.Key[k.c.Prefix:], hash, e.Version, &got)
	if err != nil {
		k.fail(err)
	} else if !first && (res != Found || got.Version != e.Version) {
		at("index does not lead to it")
	}
}

// String is for messages.
func (s Stats) String() string {
	return fmt.Sprintf("%d entries, %d keys, %d deletes, %d+%d+%d bytes, versions %d-%d, expiry %d",
		s.Entries, s.Keys, s.Deletes, s.KeyBytes, s.ValueBytes, s.SeparatedBytes, s.MinVersion, s.MaxVersion, s.MinExpiry)
}
