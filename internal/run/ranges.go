package run

import (
	"bytes"

	"github.com/brockdb/brock/internal/entry"
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
	i, err := r.search(lo)
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
		if changed, err := it.changedSince(i, lo, hi, since); changed || err != nil {
			return changed, err
		}
	}
	return false, err
}

// changedSince is ChangedSince for chunk i, whose keys don't all lie in the range.
func (it *cursor) changedSince(i int, lo, hi []byte, since entry.Version) (bool, error) {
	if !it.open(i) {
		return false, it.err
	}
	order, err := it.r.within(i, it.Chunk(), lo)
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

// EachSince calls fn for the key of every entry newer than since until it returns
// false. Chunks without such versions are not read.
func (r *Reader) EachSince(since entry.Version, fn func(key []byte) bool) error {
	it := r.newCursor()
	for i := range r.chunks {
		if r.dir[i].MaxVersion <= since {
			continue
		}
		if !it.open(i) {
			return it.err
		}
		for ok := it.Cursor.First(); ok; ok = it.Cursor.Next() {
			if e := it.Entry(); e.Version > since && !fn(e.Key) {
				return nil
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
// read, half counts.
func (r *Reader) Size(lo, hi []byte) (entries, size, separated uint64) {
	i, _ := r.search(lo)
	for ; i < len(r.chunks); i++ {
		first := r.keys.from(i)
		if hi != nil && bytes.Compare(first, hi) >= 0 {
			break
		}
		// Chunks at both ends count by the part of their bytes that lies in the range.
		from, to := 0.0, 1.0
		if bytes.Compare(lo, first) > 0 {
			from = r.position(i, lo)
		}
		if hi != nil && !r.keys.below(i, hi) {
			to = r.position(i, hi)
		}
		part, d := max(to-from, 0), &r.dir[i]
		entries += uint64(part*float64(d.Entries) + 0.5)
		size += uint64(part*float64(d.KeyBytes+d.ValueBytes) + 0.5)
		separated += uint64(part*float64(d.SeparatedBytes) + 0.5)
	}
	return entries, size, separated
}

// position estimates which part of chunk i, from 0 to 1, comes before key.
func (r *Reader) position(i int, key []byte) float64 {
	c := &r.chunks[i]
	switch order, err := r.within(i, c, key); {
	case err != nil:
		return 0.5
	case order < 0:
		return 0
	case order > 0:
		return 1
	}
	return c.Position(key[c.Prefix:])
}

// Split returns at most n-1 keys that cut the run into pieces of about the same
// size in files, in order and each greater than the first key. It reads entries
// only if the run has not many more chunks than pieces.
func (r *Reader) Split(n int) [][]byte {
	var total int64
	for i := range r.dir {
		total += int64(r.dir[i].Layout.Size())
	}
	var cuts [][]byte
	last := r.meta.First
	cut := func(key []byte) {
		if bytes.Compare(key, last) > 0 {
			last = bytes.Clone(key)
			cuts = append(cuts, last)
		}
	}
	it := r.newCursor()
	pieces := int64(n)
	sum, next := int64(0), int64(1)
	for i := range r.dir {
		size := int64(r.dir[i].Layout.Size())
		for ; next < pieces && total*next/pieces < sum+size; next++ {
			// With many chunks a piece, their first keys cut well enough.
			part := float64(total*next/pieces-sum) / float64(size)
			if len(r.dir) < 4*n && it.open(i) && it.Cursor.SeekPart(part) {
				cut(it.Entry().Key)
			} else {
				cut(r.keys.from(i))
			}
		}
		sum += size
	}
	return cuts
}
