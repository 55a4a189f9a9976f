package chunk

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
)

// Of a chunk with a flipped byte all entries are rescued but those on its page and up to the next
// fence, and nothing else is. If the byte lies in the trailer, all are, unless it is a checksum or
// leads to the checksums.
func TestRescue(t *testing.T) {
	b := build(t, someEntries(rand.New(rand.NewPCG(7, 1)), 3000))[0]
	leads := map[int]bool{} // offsets of these bytes of the trailer
	for at, tag := b.TrailerStart()+16, uint16(0); tag != secChecksums; {
		tag = binary.LittleEndian.Uint16(b.image[at:])
		n := int(binary.LittleEndian.Uint32(b.image[at+4:]))
		for i := range sectionHead + n {
			leads[at+i] = i < sectionHead || tag == secChecksums
		}
		at += align8(sectionHead + n)
	}
	rng := rand.New(rand.NewPCG(8, 1))
	for range 300 {
		at := rng.IntN(len(b.image))
		if rng.IntN(2) == 0 {
			at = b.TrailerStart() + rng.IntN(b.TrailerSize)
		}
		bad := bytes.Clone(b.image)
		bad[at] ^= 1 << rng.IntN(8)
		rest := Rescue(b.open(), b.prefix, func(p []byte, off int64) { copy(p, bad[off-b.offset:]) })
		found := 0
		for i := range b.entries {
			var e entry.Entry
			if found < rest.Len() {
				rest.Entry(found, &e)
			}
			if same(&e, &b.entries[i]) {
				found++
			}
		}
		if found != rest.Len() {
			t.Fatalf("byte %d: %d entries, of which %d are those of the chunk, in order", at, rest.Len(), found)
		}
		most := 0
		switch {
		case leads[at]:
			most = len(b.entries)
		case at < b.IndexStart():
			most = 2 * PageSize / 8
		}
		if lost := len(b.entries) - found; lost > most || lost > 0 && len(rest.Gaps) == 0 {
			t.Errorf("byte %d: %d entries are lost, at most %d should be; gaps %v", at, lost, most, rest.Gaps)
		}
	}
}
