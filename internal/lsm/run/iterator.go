package run

import (
	"bytes"
	"sync"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/invariant"
	"github.com/brockdb/brock/internal/base/offheap"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/chunk"
	"github.com/brockdb/brock/internal/lsm/iterator"
)

// Iterator walks the entries of the run. Close it once: another reader gets its memory then.
func (r *Reader) Iterator() iterator.Iterator { return r.newCursor() }

func (r *Reader) newCursor() *cursor {
	it := cursors.Get().(*cursor)
	it.r, it.i = r, -1
	return it
}

// cursors has those that were closed: a short walk would otherwise be mostly their allocation.
var cursors = sync.Pool{New: func() any { return new(cursor) }}

// Copier walks the entries of the run, as Iterator does, for a caller that writes them
// elsewhere. It reads each chunk whole into memory of its own, by a pageio.Stream, and
// verifies it there: so what is written is what was verified, whatever becomes of the file.
// An entry is valid until the next move. The Copier holds one chunk; Close gives that back.
func (r *Reader) Copier() iterator.Iterator { return r.newCopier() }

func (r *Reader) newCopier() *cursor {
	it := r.newCursor()
	it.own, it.Mem, it.stream, it.Lent = new(offheap.Buffer), new(offheap.Buffer), new(stream), true
	return it
}

// stream reads chunks of a run whole, one after the other.
type stream struct {
	pageio.Stream
	file *file // the file that it reads; another begins a new Stream
}

// cursor is the Iterator of a run: a chunk's cursor, moved from chunk to chunk.
type cursor struct {
	chunk.Cursor
	r      *Reader         // whose chunks are walked
	own    *offheap.Buffer // memory for a copy of the chunk; nil: the Reader's memory is walked
	i      int             // chunk that it is on; -1: none
	valid  bool            // it is at an entry
	stream *stream         // reads a chunk's copy whole; nil: pages are read when they are verified
}

// Ends is the method of an iterator.Bounded.
func (it *cursor) Ends() (first, last *entry.Entry) { return it.r.first, it.r.last }

// openChunk puts the cursor on chunk i.
func (it *cursor) openChunk(i int) bool {
	if i < 0 || i >= len(it.r.chunks) {
		return it.failMove(nil)
	}
	c, err := it.loadChunk(i)
	if err != nil {
		return it.failMove(err)
	}
	prefix, err := it.r.chunkPrefix(i, c)
	if err != nil {
		return it.failMove(err)
	}
	it.i, it.valid = i, false
	it.Cursor.Open(c, prefix)
	return true
}

// loadChunk returns chunk i: that of the Reader, or a copy in own. Pages are verified when they are
// used.
func (it *cursor) loadChunk(i int) (*chunk.Chunk, error) {
	switch {
	case it.own == nil:
		return &it.r.chunks[i].Chunk, nil
	case it.i == i: // its pages stay
		return it.Chunk(), nil
	}
	it.i = -1 // if this fails, the memory holds no chunk
	c, f := &it.r.chunks[i], it.r.fileOf(i)
	size := c.Layout.Size()
	data := it.own.Grow(nil, size+chunk.Room)[:size]
	read := f.ReadFull
	// Whole, in one large request: a Copier reads everything anyway.
	if s := it.stream; s != nil {
		if s.file != f {
			*s = stream{f.Stream(f.Size()), f}
		}
		if err := s.ReadFull(data, c.Offset); err != nil {
			return nil, err
		}
		read = func([]byte, int64) error { return nil }
	}
	return c.Copy(data, read), nil
}

// noteMove notes whether a move of the chunk's cursor has come to an entry, and returns that.
func (it *cursor) noteMove(ok bool) bool {
	it.valid = ok
	return ok
}

// failMove ends the move: there is no entry, because of err unless that is nil.
func (it *cursor) failMove(err error) bool {
	it.SetErr(err)
	return it.noteMove(false)
}

// direction is where a walk goes: what the numbers of chunks grow by.
type direction int

const (
	forward  direction = 1
	backward direction = -1
)

// First moves to the first entry.
func (it *cursor) First() bool { return it.enterChunk(0, forward) }

// Last moves to the last entry.
func (it *cursor) Last() bool { return it.enterChunk(len(it.r.chunks)-1, backward) }

// enterChunk moves to the entry of chunk i that a walk in this direction meets first.
func (it *cursor) enterChunk(i int, d direction) bool { return it.openChunk(i) && it.moveToEdge(d) }

// moveToEdge is enterChunk for the chunk that the cursor is on.
func (it *cursor) moveToEdge(d direction) bool {
	if d == backward {
		return it.noteMove(it.Cursor.Last())
	}
	return it.noteMove(it.Cursor.First())
}

// Next moves to the next entry.
func (it *cursor) Next() bool {
	// Nearly all moves stay in a chunk.
	if it.valid && it.Cursor.Next() {
		return true
	}
	if !it.crossToChunk(forward) {
		return false
	}
	it.readOn()
	return true
}

// Prev moves to the entry before.
func (it *cursor) Prev() bool { return it.valid && it.Cursor.Prev() || it.crossToChunk(backward) }

// moveOn is Next or Prev.
func (it *cursor) moveOn(d direction) bool {
	if d == backward {
		return it.Prev()
	}
	return it.Next()
}

// LookAhead is the method of an iterator.Lookahead.
func (it *cursor) LookAhead(until []byte, least, most entry.Version) int {
	if !it.valid {
		return 0
	}
	return it.Cursor.LookAhead(until, least, most)
}

// crossToChunk moves on into the chunk beside, unless the move before has failed.
func (it *cursor) crossToChunk(d direction) bool {
	if !it.valid {
		return false
	}
	if it.noteMove(false); it.Err() != nil {
		return false
	}
	// Opening a chunk resets the count of blocks; a walk over chunks goes on counting.
	entered := it.Entered
	ok := it.enterChunk(it.i+int(d), d)
	it.Entered = entered
	return ok
}

// readOn asks the disk for the entries of this chunk and of the next one: a walk that has come
// to a second chunk most likely goes on.
func (it *cursor) readOn() {
	for i := it.i; i < min(it.i+2, len(it.r.chunks)); i++ {
		c := &it.r.chunks[i]
		it.r.fileOf(i).Ahead(c.Offset, int64(c.End))
	}
}

// SeekGE moves to the first entry whose key is key or greater.
func (it *cursor) SeekGE(key []byte) bool { return it.seekKey(key, forward) }

// SeekLT moves to the last entry whose key is less than key.
func (it *cursor) SeekLT(key []byte) bool { return it.seekKey(key, backward) }

// seekKey is SeekGE or SeekLT.
func (it *cursor) seekKey(key []byte, d direction) bool {
	i, err := it.r.searchNewest(key)
	if err != nil {
		return it.failMove(err)
	}
	return it.seekInChunk(i, key, d)
}

// seekInChunk is seekKey for a key that lies in chunk i, or between it and a chunk beside.
func (it *cursor) seekInChunk(i int, key []byte, d direction) bool {
	if !it.openChunk(i) {
		return false
	}
	order, err := it.r.comparePrefix(i, it.Chunk(), key)
	switch {
	case err != nil:
		return it.failMove(err)
	// Without the prefix of the chunk's keys, key is before or behind all of them: this chunk lies
	// ahead of the walk, or behind it.
	case order*int(d) < 0:
		return it.moveToEdge(d)
	case order*int(d) > 0:
		return it.enterChunk(i+int(d), d)
	}
	found := it.Cursor.SeekGE(key[it.Chunk().Prefix:])
	if it.valid = true; d == forward {
		return found || it.crossToChunk(forward)
	}
	// The last entry less than key is the one before the first that is not less.
	if !found && it.Err() != nil {
		return it.noteMove(false)
	}
	return it.Prev()
}

// SkipGE leaves out whole chunks: those whose entries are all older than v, as the directory
// says.
func (it *cursor) SkipGE(key []byte, v entry.Version) bool { return it.skipOlder(key, v, forward) }

// SkipLT is SkipGE on the way back.
func (it *cursor) SkipLT(key []byte, v entry.Version) bool { return it.skipOlder(key, v, backward) }

// skipOlder is SkipGE or SkipLT.
func (it *cursor) skipOlder(key []byte, v entry.Version, d direction) bool {
	// In a chunk that has newer entries it only moves to the next one: the caller skips the
	// older ones itself.
	if !it.valid || it.r.chunks[it.i].MaxVersion >= v {
		return it.moveOn(d)
	}
	reached := (bytes.Compare(it.Entry().Key, key) >= 0) == (d == forward)
	// The whole run is older than v, so nothing before key counts.
	if it.r.newest < v && !reached {
		return it.seekKey(key, d)
	}
	i := it.i
	for ; i >= 0 && i < len(it.r.chunks) && it.r.chunks[i].MaxVersion < v; i += int(d) {
		if d == forward && it.r.keys.liesBelow(i, key) || d == backward && bytes.Compare(it.r.chunks[i].key, key) >= 0 {
			continue
		}
		if reached {
			return it.moveOn(d)
		}
		// Only this chunk: where bounds are long, key may lie far behind it.
		return it.seekInChunk(i, key, d)
	}
	// All chunks up to here are older than v; the first entry of the next one counts.
	return it.enterChunk(i, d)
}

// SkipNewer leaves out nothing: older versions of a key lie behind it.
func (it *cursor) SkipNewer(entry.Version) bool { return it.Next() }

// Close gives the cursor to other readers, and a Copier's memory back; all else belongs to the
// Reader.
func (it *cursor) Close() {
	it.valid = false
	it.Cursor.Close()
	if it.own != nil {
		it.own.Free()
		// The copy is gone with own: the next move must not take it for chunk i.
		it.Cursor.Free()
		it.i = -1
		return
	}
	invariant.Check(it.r != nil, "an iterator is closed twice")
	it.Cursor.Reset()
	it.r = nil
	if !invariant.Enabled { // else one that is used after Close is found out
		cursors.Put(it)
	}
}
