package run

import (
	"encoding/binary"
	"fmt"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/tombstone"
)

// tombstoneSize is the length of a tombstone in a directory, without its bounds.
const tombstoneSize = 16

func appendTombstones(b []byte, list []tombstone.Tombstone) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(list)))
	for i := range list {
		t := &list[i]
		b = binary.LittleEndian.AppendUint64(b, uint64(t.Version))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(t.Lo)))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(t.Hi)))
	}
	for i := range list {
		b = append(append(b, list[i].Lo...), list[i].Hi...)
	}
	return b
}

// decodeTombstones decodes the tombstones of a directory; their bounds point into p.
func decodeTombstones(p []byte) ([]tombstone.Tombstone, error) {
	if len(p) < 8 {
		return nil, fmt.Errorf("tombstones of %d bytes", len(p))
	}
	n := binary.LittleEndian.Uint64(p)
	heads := p[8:]
	if n == 0 || n > uint64(len(heads)/tombstoneSize) {
		return nil, fmt.Errorf("%d tombstones in %d bytes", n, len(p))
	}
	// A length beyond the end makes a nil bound, which Valid refuses.
	bounds := heads[n*tombstoneSize:]
	take := func(n uint32) []byte {
		if uint64(n) > uint64(len(bounds)) {
			return nil
		}
		b := bounds[:n:n]
		bounds = bounds[n:]
		return b
	}
	list := make([]tombstone.Tombstone, n)
	for i := range list {
		h, t := heads[i*tombstoneSize:], &list[i]
		t.Version = entry.Version(binary.LittleEndian.Uint64(h))
		t.Lo = take(binary.LittleEndian.Uint32(h[8:]))
		t.Hi = take(binary.LittleEndian.Uint32(h[12:]))
		if !t.Valid() || i > 0 && tombstone.Compare(list[i-1], *t) >= 0 {
			return nil, fmt.Errorf("tombstone %d: bad bounds or version, or out of order", i)
		}
	}
	return list, nil
}
