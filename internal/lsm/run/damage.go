package run

import (
	"bytes"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/chunk"
	"github.com/brockdb/brock/internal/version/layout"
)

// KeysAt returns the range of stored keys that damage at offset off of a file of the run
// concerns: every entry that lies there is in it. off is -1 for damage to all of the file. A nil
// hi is no bound.
func (r *Reader) KeysAt(file string, off int64) (lo, hi []byte) {
	for _, part := range r.parts() {
		for i := range part.chunks {
			c := &part.chunks[i]
			if c.File.Name != file || off >= 0 && (off < c.Offset || off >= c.Offset+int64(c.Layout.Size())) {
				continue
			}
			// A span of a range delete covers keys far from the entries beside it: any may be
			// concerned.
			if part == r.spans {
				return Bounds(&r.meta)
			}
			// Chunks are in the order of keys: the first one begins the range, the last one ends
			// it.
			from, to := r.keysLost(i, off)
			if lo == nil {
				lo = from
			}
			hi = to
		}
	}
	if lo == nil { // the damage is in directory, filter or footer: all of the run
		return Bounds(&r.meta)
	}
	return lo, hi
}

// keysLost is keysOf for damage at offset off of the file of chunk i. Where that is damage of pages
// with entries, the range is as far as the entries before and behind that a checksum proves. These
// are in it: older versions of their keys may be lost.
func (r *Reader) keysLost(i int, off int64) (lo, hi []byte) {
	if lo, hi = r.keysOf(i); off < 0 {
		return lo, hi
	}
	// The bound has the prefix, so no damaged trailer is needed for it.
	rest := chunk.Rescue(&r.chunks[i].Chunk, r.chunks[i].key, r.fileOf(i).ReadLeft)
	at, ok := rest.GapAt(int(off - r.chunks[i].Offset))
	if !ok {
		return lo, hi
	}
	var before, behind entry.Entry
	if at > 0 {
		rest.Entry(at-1, &before)
		lo = before.Key
	}
	if at < rest.Len() {
		rest.Entry(at, &behind)
		// The bound is not in the range, and the key must be.
		hi = append(behind.Key, 0)
	}
	return lo, hi
}

// keysOf returns the range of stored keys in which all entries of chunk i lie; a nil hi is no
// bound.
func (r *Reader) keysOf(i int) (lo, hi []byte) {
	if i+1 == len(r.chunks) {
		_, hi = Bounds(&r.meta)
		return r.chunks[i].key, hi
	}
	b := r.chunks[i+1].separator()
	switch s := &r.chunks[i+1]; {
	// Only the chunk itself tells where its keys begin: count all that begin as the bound does.
	case s.long:
		hi = afterPrefix(b)
	// The chunk before may end with the same key.
	case s.again:
		hi = append(bytes.Clone(b), 0)
	default:
		hi = b
	}
	return r.chunks[i].key, hi
}

// Bounds returns the range of stored keys in which a run lies. A nil hi is no bound.
func Bounds(m *layout.RunMeta) (lo, hi []byte) {
	if len(m.Last) > 0 {
		hi = append(bytes.Clone(m.Last), 0)
	}
	return m.First, hi
}
