package chunk

import (
	"encoding/binary"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
)

// Trailer is the verified trailer of a chunk.
type Trailer struct {
	shift  int    // a fence stands every 1<<shift bytes
	words  []byte // u64 for each fence: key word of the first entry behind it
	starts []byte // u32 for each fence: offset / 8 of that entry
	sums   []byte // u32, or a tag, for each page of entries and index
	prefix []byte // what the keys share
	Stats  Stats
}

func (t *Trailer) word(p int) uint64 { return binary.LittleEndian.Uint64(t.words[8*p:]) }

func (t *Trailer) start(p int) int { return int(binary.LittleEndian.Uint32(t.starts[4*p:])) << 3 }

// fences is the number of fences.
func (t *Trailer) fences() int { return len(t.starts) / 4 }

// parseTrailer decodes a trailer whose checksum, or tag, has been verified, and compares
// it with the layout that the directory has. It keeps b.
func parseTrailer(b []byte, l *Layout, encrypted bool) (*Trailer, error) {
	size := len(b)
	if encrypted {
		b = b[min(crypt.TagSize, size):]
	}
	if len(b) < 16 || int(binary.LittleEndian.Uint32(b[4:])) != size || binary.LittleEndian.Uint64(b[8:]) != uint64(l.End) {
		return nil, errTrailer
	}
	p := trailerParser{layout: l, trailer: new(Trailer), index: l.Buckets == 0, encrypted: encrypted}
	if err := Sections(b[16:], p.decodeSection); err != nil {
		return nil, err
	}
	// These sections must be there, and fences must ascend, or readers could walk in a circle.
	if !p.prefix || !p.index || p.trailer.sums == nil || p.trailer.starts == nil || !p.trailer.ascends(l.End) {
		return nil, errTrailer
	}
	return p.trailer, nil
}

// trailerParser gathers what the sections of a trailer say.
type trailerParser struct {
	layout        *Layout
	trailer       *Trailer
	prefix, index bool // these sections agree with the layout
	encrypted     bool
}

// decodeSection decodes one section; its payload is b.
func (p *trailerParser) decodeSection(tag uint16, _ int, b []byte) (known bool, err error) {
	ok := true
	switch tag {
	case secPrefix:
		p.prefix = len(b) == p.layout.Prefix
		p.trailer.prefix = b
	case secFence:
		ok = p.decodeFences(b)
	case secChecksums:
		p.trailer.sums = b
		ok = len(b) == 4*p.layout.pages() && !p.encrypted
	case secTags:
		p.trailer.sums = b
		ok = len(b) == crypt.TagSize*p.layout.pages() && p.encrypted
	case secIndex:
		p.index = len(b) == 8 && binary.LittleEndian.Uint32(b) == indexNarrow && int(binary.LittleEndian.Uint32(b[4:])) == p.layout.Buckets
	case secStat:
		ok = p.decodeStats(b)
	default:
		return false, nil
	}
	if !ok {
		return true, errTrailer
	}
	return true, nil
}

// decodeFences decodes the section of fences.
func (p *trailerParser) decodeFences(b []byte) (ok bool) {
	if len(b) < 8 {
		return false
	}
	shift := binary.LittleEndian.Uint32(b)
	if shift < minFenceShift || shift > maxFenceShift {
		return false
	}
	n := p.layout.fences(int(shift))
	if b = b[8:]; len(b) != 12*n {
		return false
	}
	t := p.trailer
	t.shift, t.words, t.starts = int(shift), b[:8*n:8*n], b[8*n:]
	return true
}

// decodeStats decodes the section of statistics. The bases must agree with the directory, or versions
// would be completed wrongly.
func (p *trailerParser) decodeStats(b []byte) (ok bool) {
	if len(b) < 16+StatsSize {
		return false
	}
	version, segment := entry.Version(binary.LittleEndian.Uint64(b)), entry.FileNum(binary.LittleEndian.Uint64(b[8:]))
	p.trailer.Stats = DecodeStats(b[16:]).Stamped(p.layout.Stamp)
	return version == p.layout.VersionBase && segment == p.layout.SegmentBase
}

// ascends reports whether the first fence leads to the first entry, and each
// other one, not before the one that precedes it, to its own block or beyond. A
// reader may then walk from a fence without looking back.
func (t *Trailer) ascends(end int) bool {
	prev := HeaderSize
	for p := range t.fences() {
		off := t.start(p)
		if off < prev || off > end || off < p<<t.shift || p == 0 && off != HeaderSize {
			return false
		}
		prev = off
	}
	return true
}
