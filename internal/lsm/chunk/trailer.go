package chunk

import (
	"encoding/binary"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/pageio"
)

// Trailer is the verified trailer of a chunk. Of a chunk that is read block by block it is an item
// of the cache, as each of its blocks is.
type Trailer struct {
	pageio.Used
	shift  int    // a fence stands every 1<<shift bytes
	words  []byte // u64 for each fence: key word of the first entry behind it
	starts []byte // u32 for each fence: offset / 8 of that entry
	sums   []byte // u32, or a tag, for each page of entries and index
	prefix []byte // what the keys share
	Stats  Stats

	chunk *Chunk       // whose trailer it is
	body  *pageio.Part // entries and index
}

// Drop is the method of a pageio.CacheItem.
func (t *Trailer) Drop() { t.chunk.trailer.CompareAndSwap(t, nil) }

func (t *Trailer) fenceWord(p int) uint64 { return binary.LittleEndian.Uint64(t.words[8*p:]) }

func (t *Trailer) fenceStart(p int) int { return int(binary.LittleEndian.Uint32(t.starts[4*p:])) << 3 }

// fences is the number of fences.
func (t *Trailer) fences() int { return len(t.starts) / 4 }

// parseTrailer decodes a trailer whose checksum, or tag, has been verified. It also returns the
// layout that the trailer says: compare it with what is known of the chunk. It keeps b.
func parseTrailer(b []byte, encrypted bool) (*Trailer, Layout, error) {
	t, l, sumSize := new(Trailer), Layout{TrailerSize: len(b)}, 4
	if encrypted {
		b, sumSize = b[min(crypt.TagSize, len(b)):], crypt.TagSize
	}
	if len(b) < 16 || int(binary.LittleEndian.Uint32(b[4:])) != l.TrailerSize {
		return nil, l, errTrailer
	}
	// Before the sections: it says how many fences there must be.
	l.End = int(binary.LittleEndian.Uint64(b[8:]))
	err := Sections(b[16:], func(tag uint16, _ int, p []byte) (known bool, err error) {
		known, ok := t.decodeSection(&l, tag, p, encrypted)
		if !ok {
			err = errTrailer
		}
		return known, err
	})
	// The sums come before the index in a trailer, so only now it is known how many there must be.
	// Fences must ascend, or readers could walk in a circle.
	if err == nil && (t.prefix == nil || t.starts == nil || t.sums == nil || len(t.sums) != sumSize*l.pages() || !t.fencesAscend(l.End)) {
		err = errTrailer
	}
	return t, l, err
}

// decodeSection decodes one section into t and l.
func (t *Trailer) decodeSection(l *Layout, tag uint16, p []byte, encrypted bool) (known, ok bool) {
	ok = true
	switch tag {
	case secPrefix:
		t.prefix, l.Prefix = p, len(p)
	case secFence:
		ok = t.decodeFences(p, l)
	case secChecksums, secTags:
		// A list of the other kind would be read as one of this kind.
		t.sums, ok = p, encrypted == (tag == secTags)
	case secIndex:
		if ok = len(p) == 8 && binary.LittleEndian.Uint32(p) == indexNarrow; ok {
			l.Buckets = int(binary.LittleEndian.Uint32(p[4:]))
		}
	case secStat:
		if ok = len(p) >= 16+StatsSize; ok {
			l.VersionBase, l.SegmentBase = entry.Version(binary.LittleEndian.Uint64(p)), entry.FileNum(binary.LittleEndian.Uint64(p[8:]))
			t.Stats = DecodeStats(p[16:])
		}
	default:
		return false, true
	}
	return true, ok
}

// decodeFences decodes the section of fences of a chunk, of whose layout the end is known.
func (t *Trailer) decodeFences(b []byte, l *Layout) (ok bool) {
	if len(b) < 8 {
		return false
	}
	shift := binary.LittleEndian.Uint32(b)
	if shift < minFenceShift || shift > maxFenceShift {
		return false
	}
	n := l.fences(int(shift))
	// Behind this, fences are read by number without a look at the length.
	if b = b[8:]; len(b) != 12*n {
		return false
	}
	t.shift, t.words, t.starts = int(shift), b[:8*n:8*n], b[8*n:]
	return true
}

// fencesAscend reports whether the first fence leads to the first entry, and each
// other one, not before the one that precedes it, to its own block or beyond. A
// reader may then walk from a fence without looking back.
func (t *Trailer) fencesAscend(end int) bool {
	prev := HeaderSize
	for p := range t.fences() {
		off := t.fenceStart(p)
		if off < prev || off > end || off < p<<t.shift || p == 0 && off != HeaderSize {
			return false
		}
		prev = off
	}
	return true
}
