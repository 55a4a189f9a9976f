package run

import (
	"bytes"
	"cmp"
	"iter"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/chunk"
)

// What a run tells of a range of keys: whether it has changed, how much lies in it, and where to
// cut the run into pieces.

// ChangedSince reports whether an entry with a key in [lo, hi) is newer than
// since; a nil hi is no bound. Chunks without such versions are not read, nor
// those whose keys all lie in the range.
func (r *Reader) ChangedSince(lo, hi []byte, since entry.Version) (bool, error) {
	if r.newest <= since {
		return false, nil
	}
	start, err := r.searchNewest(lo)
	if err != nil {
		return false, err
	}
	it := r.newCursor()
	for i, whole := range r.chunksIn(start, lo, hi) {
		if r.chunks[i].MaxVersion <= since {
			continue
		}
		// All keys of the chunk lie in the range, so the newest entry does, and no page is read.
		if whole {
			return true, nil
		}
		if none, err := it.eachFrom(i, lo, hi, since+1, func([]byte) bool { return false }); !none {
			return err == nil, err
		}
	}
	return false, nil
}

// chunksIn walks the chunks from start on that may have keys in [lo, hi). whole says that all keys
// of the chunk are known to lie there: the directory alone then tells what the range has of it.
func (r *Reader) chunksIn(start int, lo, hi []byte) iter.Seq2[int, bool] {
	return func(yield func(i int, whole bool) bool) {
		for i := start; i < len(r.chunks); i++ {
			first := r.chunks[i].key
			if hi != nil && bytes.Compare(first, hi) >= 0 {
				return
			}
			// Where the last chunk ends only its entries tell, so with a bound hi it is never
			// whole.
			if !yield(i, bytes.Compare(lo, first) <= 0 && (hi == nil || r.keys.liesBelow(i, hi))) {
				return
			}
		}
	}
}

// eachFrom calls fn for the keys in [lo, hi) of the entries of chunk i of version v or newer, with
// the cursor at the entry. It returns false once fn has, and after an error.
func (it *cursor) eachFrom(i int, lo, hi []byte, v entry.Version, fn func(key []byte) bool) (bool, error) {
	if !it.openChunk(i) {
		return false, it.Err()
	}
	off, err := it.seekOffset(i, lo)
	for ok := err == nil && off < it.Chunk().End; ok; ok = it.Cursor.Next() {
		e := it.Entry()
		// Compared here, not searched for before: most walks end at the first entries.
		if hi != nil && bytes.Compare(e.Key, hi) >= 0 {
			break
		}
		if e.Version >= v && !fn(e.Key) {
			return false, nil
		}
	}
	err = cmp.Or(err, it.Err())
	return err == nil, err
}

// EntriesSince is how many entries EachSince reads, and how many range deletes there are.
func (r *Reader) EntriesSince(since entry.Version) int {
	n := r.meta.RangeDeletes
	for i := range r.chunks {
		if r.chunks[i].MaxVersion > since {
			n += r.chunks[i].Entries
		}
	}
	return int(n)
}

// EachSince calls fn for the key of every entry newer than since until it returns an error. Chunks
// without such versions are not read.
func (r *Reader) EachSince(since entry.Version, fn func(key []byte) error) error {
	it := r.newCursor()
	for i := range r.chunks {
		if r.chunks[i].MaxVersion <= since {
			continue
		}
		var failed error
		more, err := it.eachFrom(i, nil, nil, since+1, func(key []byte) bool {
			failed = fn(key)
			return failed == nil
		})
		if err = cmp.Or(failed, err); !more {
			return err
		}
	}
	return nil
}

// Size estimates what lies in [lo, hi), nil for no bound: entries, bytes of
// their keys and inline values, and bytes of separated values. It uses the
// directory, and of the chunks at both ends the part of their bytes that lies in the range; one
// that can't be read counts as a whole. Entries of these chunks are taken to be alike, unless look
// says that some are looked at: then a few are read.
func (r *Reader) Size(lo, hi []byte, look bool) (entries, size, separated uint64) {
	it := r.newCursor()
	for s := range it.stretches(lo, hi) {
		all := &r.chunks[s.chunk]
		sum, part := all.Stats, 1.0
		switch {
		case s.whole:
		case look && it.sumStretch(s, &sum, &part):
		default:
			sum, part = all.Stats, s.bytes()/float64(all.End-chunk.HeaderSize)
		}
		// What a few entries say of a part is no more than what the chunk is known to have.
		count := func(n, most uint64) uint64 { return min(uint64(float64(n)*part+0.5), most) }
		entries += count(sum.Entries, all.Entries)
		size += count(sum.KeyBytes+sum.ValueBytes, all.KeyBytes+all.ValueBytes)
		separated += count(sum.SeparatedBytes, all.SeparatedBytes)
	}
	return entries, size, separated
}

const (
	lookBytes  = 16 << 10 // of a chunk, of which Size reads all entries, as of a chunk of few;
	lookPlaces = 32       // else entries in so many places,
	lookRow    = 16       // so many in each
	cutBytes   = 1 << 20  // of a range, of which Split reads all entries
)

// stretch is what a range has of one chunk.
type stretch struct {
	chunk    int  // number of the chunk
	from, to int  // where it begins and ends in the chunk
	whole    bool // it is all entries of the chunk, or the chunk can't be read
}

// bytes is its length.
func (s *stretch) bytes() float64 { return float64(s.to - s.from) }

// stretches walks what [lo, hi) has of each chunk. The cursor is at the first entry of a stretch
// that is not whole, and may be moved.
func (it *cursor) stretches(lo, hi []byte) iter.Seq[stretch] {
	return func(yield func(stretch) bool) {
		// After an error the walk begins at the first chunk: those before lo have empty stretches.
		start, _ := it.r.searchNewest(lo)
		for i, whole := range it.r.chunksIn(start, lo, hi) {
			s := stretch{chunk: i, from: chunk.HeaderSize, to: it.r.chunks[i].End, whole: whole}
			if !whole {
				from, to, ok := it.entryBounds(i, lo, hi)
				if s.whole = !ok; ok {
					s.from, s.to = from, to
				}
			}
			if !yield(s) {
				return
			}
		}
	}
}

// sumStretch reads entries of the stretch that the cursor is at: what it holds is sum, times part.
// It returns false if they can't be read.
func (it *cursor) sumStretch(s stretch, sum *chunk.Stats, part *float64) bool {
	*sum = chunk.Stats{}
	if s.to-s.from <= lookBytes || it.r.chunks[s.chunk].Entries <= lookPlaces*lookRow {
		for ok := s.from < s.to; ok && it.Cursor.Offset() < s.to; ok = it.Cursor.Next() {
			sum.AddEntry(it.Entry(), false)
		}
		return it.Err() == nil
	}
	// Rows of entries: one alone would be met more often if it follows a long one.
	end, length := it.Chunk().End, 0
	for j := range lookPlaces {
		ok := it.Cursor.SeekPart((float64(s.from) + (float64(j)+0.5)*s.bytes()/lookPlaces) / float64(end))
		for n := 0; ok && n < lookRow; n++ {
			at := it.Cursor.Offset()
			// SeekPart goes to a fence, which may lie before the stretch.
			if at < s.from || at >= s.to {
				break
			}
			sum.AddEntry(it.Entry(), false)
			next := end
			if ok = it.Cursor.Next(); ok {
				next = it.Cursor.Offset()
			}
			// By the bytes that were read, not by their number: short entries are met more seldom.
			length += next - at
		}
	}
	*part = s.bytes() / float64(max(length, 1))
	return length > 0
}

// entryBounds returns where the entries of chunk i with keys in [lo, hi) begin and end. It moves to
// the first one.
func (it *cursor) entryBounds(i int, lo, hi []byte) (from, to int, ok bool) {
	if !it.openChunk(i) {
		return 0, 0, false
	}
	var err error
	if to = it.Chunk().End; hi != nil {
		// hi before lo: the cursor is left at the first entry of the range.
		to, err = it.seekOffset(i, hi)
	}
	if err == nil {
		from, err = it.seekOffset(i, lo)
	}
	// lo may be behind hi: the range is empty then.
	return from, max(to, from), err == nil
}

// seekOffset moves to the first entry of chunk i, which the cursor is on, whose key is not less
// than key, and returns where it begins: at the chunk's End if there is none.
func (it *cursor) seekOffset(i int, key []byte) (int, error) {
	order, err := it.r.comparePrefix(i, it.Chunk(), key)
	found := false
	switch {
	case err != nil:
		return 0, err
	case order < 0:
		found = it.Cursor.First()
	case order == 0:
		found = it.Cursor.SeekGE(key[it.r.chunks[i].Prefix:])
	}
	if found {
		return it.Cursor.Offset(), nil
	}
	return it.Chunk().End, it.Err()
}

// Split returns at most n-1 keys that cut [lo, hi) into pieces of about the same size in files, in
// order; nil is no bound. Each is greater than lo and than the first key of the run. Split reads
// entries only if the range is small, or has not many more chunks than pieces.
func (r *Reader) Split(lo, hi []byte, n int) (cuts [][]byte) {
	last := r.meta.First
	if bytes.Compare(lo, last) > 0 {
		last = lo
	}
	cut := func(key []byte) {
		// Where entries are long, two cuts may find the same one. Moves overwrite the key.
		if bytes.Compare(key, last) > 0 && (hi == nil || bytes.Compare(key, hi) < 0) {
			last = bytes.Clone(key)
			cuts = append(cuts, last)
		}
	}
	it := r.newCursor()
	list, total := slices.Collect(it.stretches(lo, hi)), 0.0
	for i := range list {
		total += list[i].bytes()
	}
	// due is how many bytes come before the next cut.
	sum, next := 0.0, 1
	due := func() float64 { return total * float64(next) / float64(n) }
	for i := range list {
		s := &list[i]
		// Fences are 1 KB apart: in a small range they would give only a few different cuts.
		if total <= cutBytes {
			_, _ = it.eachFrom(s.chunk, lo, hi, 0, func(key []byte) bool {
				if due() <= sum+float64(it.Cursor.Offset()-s.from) {
					next++
					cut(key)
				}
				return next < n
			})
		}
		for ; next < n && due() < sum+s.bytes(); next++ {
			part := (float64(s.from) + due() - sum) / float64(r.chunks[s.chunk].End)
			// With many chunks a piece, their first keys cut well enough.
			if len(list) < 4*n && it.openChunk(s.chunk) && it.Cursor.SeekPart(part) {
				cut(it.Entry().Key)
			} else {
				cut(r.chunks[s.chunk].key)
			}
		}
		sum += s.bytes()
	}
	return cuts
}
