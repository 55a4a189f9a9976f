package run

import (
	"bytes"

	"github.com/brockdb/brock/internal/base/entry"
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
	it := r.newCursor()
	i, err := r.searchNewest(lo)
	for ; err == nil && i < len(r.chunks); i++ {
		from := r.keys.from(i)
		if hi != nil && bytes.Compare(from, hi) >= 0 {
			break
		}
		// The directory decides for most chunks: without newer versions, or with all
		// keys in the range.
		if r.dir[i].MaxVersion <= since {
			continue
		}
		if bytes.Compare(lo, from) <= 0 && (hi == nil || r.keys.below(i, hi)) {
			return true, nil
		}
		if changed, err := it.changedInChunk(i, lo, hi, since); changed || err != nil {
			return changed, err
		}
	}
	return false, err
}

// changedInChunk is ChangedSince for chunk i, whose keys don't all lie in the range.
func (it *cursor) changedInChunk(i int, lo, hi []byte, since entry.Version) (bool, error) {
	if !it.openChunk(i) {
		return false, it.err
	}
	order, err := it.r.comparePrefix(i, it.Chunk(), lo)
	if order > 0 || err != nil {
		return false, err
	}
	ok := false
	if order < 0 {
		ok = it.Cursor.First()
	} else {
		ok = it.Cursor.SeekGE(lo[it.r.dir[i].Prefix:])
	}
	for ; ok; ok = it.Cursor.Next() {
		e := it.Entry()
		if hi != nil && bytes.Compare(e.Key, hi) >= 0 {
			break
		}
		if e.Version > since {
			return true, nil
		}
	}
	return false, it.Cursor.Err()
}

// EntriesSince is how many entries EachSince reads, and how many range deletes there are.
func (r *Reader) EntriesSince(since entry.Version) int {
	n := r.meta.RangeDeletes
	for i := range r.dir {
		if r.dir[i].MaxVersion > since {
			n += r.dir[i].Entries
		}
	}
	return int(n)
}

// EachSince calls fn for the key of every entry newer than since until it returns an error. Chunks
// without such versions are not read.
func (r *Reader) EachSince(since entry.Version, fn func(key []byte) error) error {
	it := r.newCursor()
	for i := range r.chunks {
		if r.dir[i].MaxVersion <= since {
			continue
		}
		if !it.openChunk(i) {
			return it.err
		}
		for ok := it.Cursor.First(); ok; ok = it.Cursor.Next() {
			if e := it.Entry(); e.Version > since {
				if err := fn(e.Key); err != nil {
					return err
				}
			}
		}
		if err := it.Cursor.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Size estimates what lies in [lo, hi), nil for no bound: entries, bytes of
// their keys and inline values, and bytes of separated values. It uses the
// directory and the fences of the chunks at both ends. Of a chunk whose fences can't be
// read, half counts. Entries of these chunks are taken to be alike, unless look says that some are
// looked at: then a few are read.
func (r *Reader) Size(lo, hi []byte, look bool) (entries, size, separated uint64) {
	i, _ := r.searchNewest(lo)
	for ; i < len(r.chunks); i++ {
		first := r.keys.from(i)
		if hi != nil && bytes.Compare(first, hi) >= 0 {
			break
		}
		d, after := &r.dir[i], bytes.Compare(lo, first) > 0
		sum := content{float64(d.Entries), float64(d.KeyBytes + d.ValueBytes), float64(d.SeparatedBytes)}
		before := hi != nil && !r.keys.below(i, hi)
		switch {
		case !after && !before:
		case look && r.sumChunk(i, lo, hi, &sum):
			// What a few entries say of a part is no more than what the chunk is known to have.
			sum.entries = min(sum.entries, float64(d.Entries))
			sum.size = min(sum.size, float64(d.KeyBytes+d.ValueBytes))
			sum.separated = min(sum.separated, float64(d.SeparatedBytes))
		default:
			// Chunks at both ends count by the part of their bytes that lies in the range.
			from, to := 0.0, 1.0
			if after {
				from = r.position(i, lo)
			}
			if before {
				to = r.position(i, hi)
			}
			sum.shrink(max(to-from, 0))
		}
		entries += uint64(sum.entries + 0.5)
		size += uint64(sum.size + 0.5)
		separated += uint64(sum.separated + 0.5)
	}
	return entries, size, separated
}

// content is what some entries hold.
type content struct {
	entries, size, separated float64 // size: bytes of keys and inline values
}

// addEntry counts e.
func (c *content) addEntry(e *entry.Entry) {
	c.entries++
	c.size += float64(len(e.Key) + len(e.Value))
	if e.Separated {
		c.separated += float64(e.Handle.Length)
	}
}

// shrink leaves this part of c.
func (c *content) shrink(part float64) {
	c.entries, c.size, c.separated = c.entries*part, c.size*part, c.separated*part
}

const (
	lookBytes  = 16 << 10 // of a chunk, of which Size reads all entries, as of a chunk of few;
	lookPlaces = 32       // else entries in so many places,
	lookRow    = 16       // so many in each
	cutBytes   = 1 << 20  // of a range, of which Split reads all entries
)

// sumChunk makes sum what [lo, hi) holds of chunk i. It returns false if that can't be read.
func (r *Reader) sumChunk(i int, lo, hi []byte, sum *content) bool {
	it := r.newCursor()
	from, to, ok := it.entryBounds(i, lo, hi)
	if !ok {
		return false
	}
	*sum = content{}
	if to-from <= lookBytes || r.dir[i].Entries <= lookPlaces*lookRow {
		for ok := from < to; ok && it.Cursor.Offset() < to; ok = it.Cursor.Next() {
			sum.addEntry(it.Entry())
		}
		return it.Cursor.Err() == nil
	}
	// Rows of entries: one alone would be met more often if it follows a long one.
	places, length := float64(to-from)/lookPlaces, 0
	for j := range lookPlaces {
		ok := it.Cursor.SeekPart((float64(from) + (float64(j)+0.5)*places) / float64(it.Chunk().End))
		for n := 0; ok && n < lookRow; n++ {
			at := it.Cursor.Offset()
			if at < from || at >= to {
				break
			}
			sum.addEntry(it.Entry())
			end := it.Chunk().End
			if ok = it.Cursor.Next(); ok {
				end = it.Cursor.Offset()
			}
			length += end - at
		}
	}
	sum.shrink(float64(to-from) / float64(max(length, 1)))
	return length > 0
}

// entryBounds returns where the entries of chunk i with keys in [lo, hi) begin and end. It moves to
// the first one.
func (it *cursor) entryBounds(i int, lo, hi []byte) (from, to int, ok bool) {
	if !it.openChunk(i) {
		return 0, 0, false
	}
	to = it.Chunk().End
	if hi != nil {
		if to, ok = it.offset(i, hi); !ok {
			return 0, 0, false
		}
	}
	from, ok = it.offset(i, lo)
	return from, max(to, from), ok
}

// offset moves to the first entry of chunk i, which the cursor is on, whose key is not less than
// key, and returns where it begins.
func (it *cursor) offset(i int, key []byte) (int, bool) {
	order, err := it.r.comparePrefix(i, it.Chunk(), key)
	found := false
	switch {
	case err != nil:
		return 0, false
	case order < 0:
		found = it.Cursor.First()
	case order == 0:
		found = it.Cursor.SeekGE(key[it.r.dir[i].Prefix:])
	}
	if found {
		return it.Cursor.Offset(), true
	}
	return it.Chunk().End, it.Cursor.Err() == nil
}

// position estimates which part of chunk i, from 0 to 1, comes before key.
func (r *Reader) position(i int, key []byte) float64 {
	c := &r.chunks[i]
	switch order, err := r.comparePrefix(i, c, key); {
	case err != nil:
		return 0.5
	case order < 0:
		return 0
	case order > 0:
		return 1
	}
	return c.Position(key[c.Prefix:])
}

// stretch is what a range has of one chunk.
type stretch struct {
	chunk    int     // number of the chunk
	from, to float64 // where it begins and ends, as parts of the chunk from 0 to 1
	bytes    float64 // its length
}

// stretches lists what [lo, hi) has of each chunk. What can't be read counts as a whole.
func (r *Reader) stretches(lo, hi []byte) (list []stretch, total float64) {
	i, _ := r.searchNewest(lo)
	it := r.newCursor()
	for ; i < len(r.chunks); i++ {
		first := r.keys.from(i)
		if hi != nil && bytes.Compare(first, hi) >= 0 {
			break
		}
		s := stretch{chunk: i, to: 1, bytes: float64(r.dir[i].Layout.Size())}
		if bytes.Compare(lo, first) > 0 || hi != nil && !r.keys.below(i, hi) {
			if from, to, ok := it.entryBounds(i, lo, hi); ok {
				end := float64(it.Chunk().End)
				s.from, s.to, s.bytes = float64(from)/end, float64(to)/end, float64(to-from)
			}
		}
		list, total = append(list, s), total+s.bytes
	}
	return list, total
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
		if bytes.Compare(key, last) > 0 && (hi == nil || bytes.Compare(key, hi) < 0) {
			last = bytes.Clone(key)
			cuts = append(cuts, last)
		}
	}
	it := r.newCursor()
	list, total := r.stretches(lo, hi)
	sum, next := 0.0, 1
	for _, s := range list {
		if total <= cutBytes {
			it.cutSmall(s, lo, hi, func(passed float64) bool {
				is := next < n && total*float64(next)/float64(n) <= sum+passed
				if is {
					next++
				}
				return is
			}, cut)
		}
		for ; next < n && total*float64(next)/float64(n) < sum+s.bytes; next++ {
			part := s.from + (total*float64(next)/float64(n)-sum)/s.bytes*(s.to-s.from)
			// With many chunks a piece, their first keys cut well enough.
			if len(list) < 4*n && it.openChunk(s.chunk) && it.Cursor.SeekPart(part) {
				cut(it.Entry().Key)
			} else {
				cut(r.keys.from(s.chunk))
			}
		}
		sum += s.bytes
	}
	return cuts
}

// cutSmall calls cut with the keys of a stretch at which due returns true, given the bytes that
// come before.
func (it *cursor) cutSmall(s stretch, lo, hi []byte, due func(passed float64) bool, cut func(key []byte)) {
	from, to, ok := it.entryBounds(s.chunk, lo, hi)
	for ok = ok && from < to; ok && it.Cursor.Offset() < to; ok = it.Cursor.Next() {
		if due(float64(it.Cursor.Offset()-from) / float64(to-from) * s.bytes) {
			cut(it.Entry().Key)
		}
	}
}
