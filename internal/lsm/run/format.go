package run

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/chunk"
	"github.com/brockdb/brock/internal/lsm/rangedel"
)

// The directory of a run file: its chunks, their bounds, the filters, and what the last file
// says of the whole run.

const (
	recordSize = 48 + chunk.StatsSize // bytes of a chunk in the directory

	// Sections of a directory. A trailer's sections have other numbers.
	secChunks  = 16
	secBounds  = 17
	secRanges  = 25 // numbers of range deletes
	secFilters = 22
	secAbout   = 23 // the store, see WriterConfig.About
	secTags    = 24 // of the pages of filters, if the file is encrypted

	filterWords = 1 // kind of the filters: bloom
)

// record is a chunk in a directory.
type record struct {
	chunk.Chunk // can be read once it is in a Reader
	bound
	chunk.Stats
	file *file // that it is in; nil until it is in a Reader
}

// directory is what a file says of its chunks.
type directory struct {
	chunks  []record       // in order of keys
	filters []filterRecord // in the order in which they lie in the file

	ranges ranges // range deletes of the whole run; only in its last file

	about []byte // payload of the section; nil: there is none

	encrypted bool // the file is encrypted
}

const aboutLast = 1 // flag of the section about: the file is the last one of its run

// appendDirectory appends the sections of a directory.
func appendDirectory(b []byte, d *directory) []byte {
	b = chunk.AppendSection(b, secChunks, chunk.Required, func(b []byte) []byte {
		for i := range d.chunks {
			b = appendRecord(b, &d.chunks[i])
		}
		return b
	})
	b = chunk.AppendSection(b, secBounds, chunk.Required, func(b []byte) []byte { return appendBounds(b, d.chunks) })
	// Without filters there is no section: a reader that finds one relies on what it says.
	if len(d.filters) > 0 {
		b = chunk.AppendSection(b, secFilters, 0, d.appendFilters)
	}
	if (d.ranges != ranges{}) {
		b = chunk.AppendSection(b, secRanges, chunk.Required, d.ranges.appendRanges)
	}
	if d.encrypted {
		// Required, unlike the filters: who skipped it would read encrypted words as a filter.
		b = chunk.AppendSection(b, secTags, chunk.Required, func(b []byte) []byte {
			for i := range d.filters {
				b = append(b, d.filters[i].tags...)
			}
			return b
		})
	}
	if d.about != nil {
		// Not required: only a salvage without MANIFEST needs it.
		b = chunk.AppendSection(b, secAbout, 0, func(b []byte) []byte { return append(b, d.about...) })
	}
	return b
}

// appendRecord appends the record of a chunk.
func appendRecord(b []byte, r *record) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Offset))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.End))
	b = binary.LittleEndian.AppendUint32(b, uint32(r.Buckets))
	b = binary.LittleEndian.AppendUint32(b, uint32(r.TrailerSize))
	b = binary.LittleEndian.AppendUint32(b, uint32(r.Prefix))
	b = binary.LittleEndian.AppendUint32(b, r.TrailerChecksum)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.VersionBase))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.SegmentBase))
	return r.Stats.Append(b)
}

// decodeDirectory decodes a directory whose checksum, or tag, has been verified and that
// begins at offset end of its file. Bounds point into b. It checks that the chunks lie in
// order before end, and that their keys are in order.
func decodeDirectory(b []byte, end uint64, encrypted bool) (*directory, error) {
	d := &directory{encrypted: encrypted}
	var chunks, bounds, tags []byte
	err := chunk.Sections(b, func(tag uint16, _ int, p []byte) (known bool, err error) {
		switch tag {
		case secChunks:
			chunks = p
		case secBounds:
			bounds = p
		case secFilters:
			err = d.decodeFilters(p, end)
		case secRanges:
			err = d.ranges.decodeRanges(p)
		case secAbout:
			d.about = p
		// In a plain file the section is unknown, and as it is required, the file is refused.
		case secTags:
			tags = p
			return encrypted, nil
		default:
			return false, nil
		}
		return true, err
	})
	if err == nil && encrypted {
		err = d.tagFilters(tags)
	}
	if err != nil {
		return nil, err
	}
	// Chunks before bounds: bounds are checked against the chunks' prefixes.
	if err := d.decodeChunks(chunks, end); err != nil {
		return nil, err
	}
	return d, decodeBounds(bounds, d.chunks)
}

// decodeChunks decodes the section of the chunks.
func (d *directory) decodeChunks(p []byte, end uint64) (err error) {
	n := len(p) / recordSize
	if len(p)%recordSize != 0 || n == 0 {
		return fmt.Errorf("%d bytes of chunks", len(p))
	}
	d.chunks = make([]record, n)
	// Records must follow each other in the file.
	// Else two chunks could share bytes, and damage of one would be damage of both.
	next := uint64(0)
	if d.encrypted {
		next = headerSize
	}
	for i := range d.chunks {
		if next, err = d.chunks[i].decodeChunk(p[i*recordSize:], next, end); err != nil {
			return fmt.Errorf("chunk %d: %w", i, err)
		}
	}
	return nil
}

const (
	boundHead  = 4       // bytes of a bound beside its key
	boundAgain = 1 << 14 // flag: bound.again
	boundLong  = 1 << 15 // flag: bound.long
)

// appendBounds appends the payload of the section of bounds.
func appendBounds(b []byte, chunks []record) []byte {
	for i := range chunks {
		r := &chunks[i].bound
		word := uint16(r.apart)
		if r.again {
			word |= boundAgain
		}
		if r.long {
			word |= boundLong
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(len(r.key)))
		b = binary.LittleEndian.AppendUint16(b, word)
	}
	for i := range chunks {
		b = append(b, chunks[i].key...)
	}
	return b
}

// decodeBounds decodes the bounds of chunks, whose records are decoded already; keys
// point into p. It checks that they are in order, and long enough for the chunk's prefix.
func decodeBounds(p []byte, chunks []record) error {
	if len(p) < boundHead*len(chunks) {
		return fmt.Errorf("%d bytes of bounds for %d chunks", len(p), len(chunks))
	}
	heads, p := p, p[boundHead*len(chunks):]
	for i := range chunks {
		r := &chunks[i]
		n := int(binary.LittleEndian.Uint16(heads[boundHead*i:]))
		word := binary.LittleEndian.Uint16(heads[boundHead*i+2:])
		r.apart, r.again, r.long = int(word&(boundAgain-1)), word&boundAgain != 0, word&boundLong != 0
		// Searches slice keys by these numbers without a look at their length.
		if n > min(len(p), boundSize) || r.apart > n || r.apart == 0 || r.long && r.apart != boundSize {
			return fmt.Errorf("chunk %d: bound of %d bytes, %d tell it apart", i, n, r.apart)
		}
		// bound.hasPrefix and Reader.prefix take the prefix out of the bound.
		if uint(r.Prefix) > entry.MaxKey || min(r.Prefix, boundSize) > n {
			return fmt.Errorf("chunk %d: bound of %d bytes, prefix of %d", i, n, r.Prefix)
		}
		r.key, p = p[:n:n], p[n:]
		// Search relies on this order; without it a get could miss a key that is there.
		if i > 0 && !r.mayFollow(&chunks[i-1].bound) {
			return fmt.Errorf("chunk %d: %w", i, errDisorder)
		}
	}
	return nil
}

var errDisorder = errors.New("keys out of order")

// decodeChunk decodes a chunk's record and checks that the chunk lies in [from, to);
// it returns the chunk's end.
func (r *record) decodeChunk(p []byte, from, to uint64) (end uint64, err error) {
	offset := binary.LittleEndian.Uint64(p)
	stop := binary.LittleEndian.Uint64(p[8:])
	buckets := binary.LittleEndian.Uint32(p[16:])
	trailer := binary.LittleEndian.Uint32(p[20:])
	// Pages are verified by their number in the file, so a chunk must begin at one.
	if offset < from || offset > to || offset%chunk.PageSize != 0 {
		return 0, fmt.Errorf("at %d", offset)
	}
	// Each length is compared with what is left before lengths are added, so that no
	// sum of hostile numbers wraps around.
	left := to - offset
	if stop <= chunk.HeaderSize || stop%8 != 0 || stop > left || trailer%chunk.PageSize != 0 || trailer == 0 {
		return 0, fmt.Errorf("%d bytes of entries, trailer of %d", stop, trailer)
	}
	r.Layout = chunk.Layout{
		End: int(stop), Buckets: int(buckets), TrailerSize: int(trailer),
		Prefix:      int(binary.LittleEndian.Uint32(p[24:])),
		VersionBase: entry.Version(binary.LittleEndian.Uint64(p[32:])),
		SegmentBase: entry.FileNum(binary.LittleEndian.Uint64(p[40:])),
	}
	r.Offset, r.Page = int64(offset), int(offset/chunk.PageSize)
	r.TrailerChecksum = binary.LittleEndian.Uint32(p[28:])
	r.Stats = chunk.DecodeStats(p[48:])
	if uint64(r.Layout.Size()) > left {
		return 0, fmt.Errorf("%d bytes, %d are left", r.Layout.Size(), left)
	}
	return offset + uint64(r.Layout.Size()), nil
}

// A run keeps range deletes as entries, in chunks of their own behind all others: so they are
// checked, cached and searched as entries are, and none is in memory because the run is open.
// docs/format.md, "Range deletes", has their keys.
//
// Each such entry is a span: its key ends with the upper bound, its value is the lower one. So the
// first entry behind a key is the span that covers it, if any does.
const (
	tagFlat   = 0xfd // flat span: readers need only this one range delete at its place
	tagNode   = 0xfe // span of a node: readers may need several range deletes at its place
	tagNewest = 0xff // the newest of the spans of several forests

	nodeFanout = 16 // node i of level k has the 16^k range deletes of its forest from i·16^k on
)

// isRangeDeletes reports whether a chunk with this first key, or an entry with this key, is one of
// range deletes. The key must not be empty. No stored key begins with these bytes.
func isRangeDeletes(first []byte) bool { return first[0] >= tagFlat }

// flatPrefix appends the prefix of the keys of flat spans to dst.
func flatPrefix(dst []byte) []byte { return append(dst, tagFlat) }

// forestPrefix appends what the prefixes of all nodes of a forest begin with to dst.
func forestPrefix(dst []byte, forest int) []byte {
	return binary.BigEndian.AppendUint32(append(dst, tagNode), uint32(forest))
}

// leavesPrefix appends what the prefixes of a forest's nodes of level 0 begin with to dst: these
// are its range deletes.
func leavesPrefix(dst []byte, forest int) []byte { return append(forestPrefix(dst, forest), 0) }

// Lengths of prefixes.
const (
	leavesPrefixLen = 1 + 4 + 1
	nodePrefixLen   = leavesPrefixLen + 4
)

// nodePrefix appends the prefix of the keys of a node's spans to dst.
func nodePrefix(dst []byte, forest, level, node int) []byte {
	return binary.BigEndian.AppendUint32(append(forestPrefix(dst, forest), byte(level)), uint32(node))
}

// nodeOf returns level and number of the node that a key of tagNode is of. The key has a whole
// prefix.
func nodeOf(key []byte) (level, node int) {
	return int(key[5]), int(binary.BigEndian.Uint32(key[6:]))
}

// newestPrefix appends the prefix of the spans that a reader of all the history asks to dst.
func (r *ranges) newestPrefix(dst []byte) []byte {
	if r.forests > 1 {
		return append(dst, tagNewest)
	}
	return nodePrefix(dst, 0, rangedel.Top, 0)
}

// ranges counts the range deletes of a run. The directory of the last file has it.
type ranges struct {
	flat    uint64 // flat spans
	history uint64 // range deletes in forests
	forests uint64 // number of forests
}

const rangesSize = 24 // bytes of encoded ranges

func (r *ranges) appendRanges(b []byte) []byte {
	for _, n := range [...]uint64{r.flat, r.history, r.forests} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}

func (r *ranges) decodeRanges(p []byte) error {
	if len(p) < rangesSize {
		return fmt.Errorf("range deletes in %d bytes", len(p))
	}
	// Bounded, so that sums and loops over them stay small whatever the file says.
	*r = ranges{binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:]), binary.LittleEndian.Uint64(p[16:])}
	if r.flat == 0 && r.history == 0 || r.flat > 1<<40 || r.history > 1<<40 ||
		(r.history == 0) != (r.forests == 0) || r.forests > min(r.history, 1<<31) {
		return fmt.Errorf("%d and %d range deletes in %d forests", r.flat, r.history, r.forests)
	}
	return nil
}
