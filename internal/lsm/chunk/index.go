package chunk

import (
	"encoding/binary"
	"math/bits"
)

// The hash index of a chunk leads from a key's hash to the newest entry of the key in one cache
// line.
//
// It is an array of 64-byte buckets of 16 slots. A slot is a fingerprint of 15 bits above the
// entry's offset in units of 8 bytes (17 bits, never 0); 0 is an empty slot, and a bucket fills
// from its first slot. An item whose bucket is full goes to the next one (after the last, the
// first): open addressing with linear probing over buckets (Knuth, TAOCP vol. 3, 6.4, "External
// searching"). So a probe ends at a bucket with an empty last slot. The index only locates: keys
// are compared in the entry. docs/format.md, "Run", has the table.

const (
	bucketSize  = 64      // bytes: one cache line
	bucketSlots = 16      // slots of a bucket
	maxOffset   = 1 << 20 // offsets are below this

	offsetBits = 17
	offsetMask = 1<<offsetBits - 1

	// Buckets are filled to four fifths on average: at 0.85 a quarter more of
	// all misses walk on to a second line, at 0.75 the index is 7 % bigger.
	loadNum, loadDen = 4, 5
)

// indexItem is one key to index.
type indexItem struct {
	hash   uint64 // of the key
	offset uint32 // where its newest entry begins: a multiple of 8 in [8, maxOffset)
}

// bucketsFor is how many buckets n items get.
func bucketsFor(n int) int {
	if n == 0 {
		return 0
	}
	return (n*loadDen + bucketSlots*loadNum - 1) / (bucketSlots * loadNum)
}

// buildIndex fills table, which must be zero and bucketsFor(len(items)) long.
func buildIndex(table []byte, items []indexItem) {
	n := len(table) / bucketSize
	for i := range items {
		it := &items[i]
		// There are more slots than items, so a free one is found.
		b := homeBucket(it.hash, n)
		slot := fingerprintOf(it.hash)&^uint32(offsetMask) | it.offset>>3
		for !insertSlot(table[b*bucketSize:][:bucketSize], slot) {
			if b++; b == n {
				b = 0
			}
		}
	}
}

// insertSlot puts slot into the first free slot of a bucket. It returns false if the bucket is
// full.
func insertSlot(bucket []byte, slot uint32) bool {
	// Half of the slots are taken on average while a table fills, so the
	// search for the first free one steps by words of two.
	for i := 0; i < bucketSize; i += 8 {
		w := binary.LittleEndian.Uint64(bucket[i:])
		if w>>32 != 0 {
			continue
		}
		if w == 0 {
			binary.LittleEndian.PutUint32(bucket[i:], slot)
		} else {
			binary.LittleEndian.PutUint32(bucket[i+4:], slot)
		}
		return true
	}
	return false
}

// homeBucket is the bucket of n where the probe for hash begins: a multiplication takes
// the place of a division by n.
func homeBucket(hash uint64, n int) int {
	return int(hash >> 32 * uint64(n) >> 32)
}

// fingerprintOf returns the part of a hash that matchSlots compares: its lowest 15 bits, in the
// upper 15 bits of the result.
func fingerprintOf(hash uint64) uint32 { return uint32(hash) << offsetBits }

// matchSlots compares the slots of a bucket with a fingerprint, two at a time, and
// returns those that may be equal as bits for slotOffset.
func matchSlots(bucket *[bucketSize]byte, fingerprint uint32) uint64 {
	const (
		ones   = 1<<32 | 1
		tops   = 1<<63 | 1<<31
		prints = uint64(^uint32(offsetMask)) * ones
	)
	// Two slots a word: x has a half of zeros where the fingerprint is equal, and
	// subtracting 1 sets that half's top bit.
	f := uint64(fingerprint) * ones
	var m uint64
	for i := range bucketSize / 8 {
		w := binary.LittleEndian.Uint64(bucket[8*i:])
		x := (w ^ f) & prints
		m |= (x - ones) &^ x & tops >> 31 << (2 * i)
	}
	return m
}

// slotOffset returns the offset in the first slot of matches, a result of matchSlots that
// is not 0; clearing the lowest bit of matches leads to the next one. It is 0 if
// the slot is empty.
func slotOffset(bucket *[bucketSize]byte, matches uint64) int {
	b := bits.TrailingZeros64(matches)
	i := (b + b>>5) & (bucketSlots - 1)
	return int(binary.LittleEndian.Uint32(bucket[4*i:])&offsetMask) << 3
}

// bucketFull reports whether the probe goes on in the next bucket.
func bucketFull(bucket *[bucketSize]byte) bool {
	return binary.LittleEndian.Uint32(bucket[bucketSize-4:]) != 0
}
