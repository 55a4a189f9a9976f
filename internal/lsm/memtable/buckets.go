package memtable

import (
	"bytes"
	"math/bits"
	"sync/atomic"
	"unsafe" // a hash table is a typed view of allocated bytes

	"github.com/brockdb/brock/internal/base/offheap"
)

// buckets is a hash table with open addressing and linear probing (Knuth, TAOCP vol. 3, 6.4,
// Algorithm L). A bucket holds the leading bits of a key's hash and the ref of the key's newest
// version; 0 is empty. A key's probe begins at the bucket that the hash's top bits name, and goes
// up to the first empty one. No bucket is ever emptied, so readers need no lock.
type buckets struct {
	words []atomic.Uint64 // the buckets: leading bits of the hash | ref
	mem   []byte          // the memory of words, off the Go heap
	shift uint8           // hash >> shift is the first bucket of a probe
	limit int             // number of keys from which on the table is grown: 5/8 of the buckets
}

const firstBuckets = 128 // size of the first table

// bucketLimit is how many keys n buckets take.
func bucketLimit(n int) int { return n / 8 * 5 }

func newBuckets(n int) (*buckets, error) {
	mem, err := offheap.Alloc(n * 8)
	if err != nil {
		return nil, err
	}
	return &buckets{
		words: unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(mem))), n),
		mem:   mem,
		shift: uint8(64 - bits.TrailingZeros(uint(n))),
		limit: bucketLimit(n),
	}, nil
}

// copyGrown returns a table of n buckets, more than b has, with the contents of b. Buckets keep
// enough of the hash, so it reads no key. It walks both tables from front to back.
func (b *buckets) copyGrown(n int) (*buckets, error) {
	g, err := newBuckets(n)
	if err != nil {
		return nil, err
	}
	mask := uint64(len(g.words) - 1)
	for i := range b.words {
		w := b.words[i].Load()
		if w == 0 {
			continue
		}
		// The bucket has the hash's leading bits, all that its place depends on.
		j := w >> g.shift
		for g.words[j].Load() != 0 {
			j = (j + 1) & mask
		}
		*(*uint64)(unsafe.Pointer(&g.words[j])) = w // nobody else has g yet
	}
	// The caller publishes g by an atomic store, which comes after these plain ones.
	return g, nil
}

// findBucket returns the bucket and the newest version of key; without one, the empty
// bucket that would take it, and 0.
func (b *buckets) findBucket(a *arena, hash uint64, key []byte) (at uint64, head ref) {
	mask := uint64(len(b.words) - 1)
	for i := hash >> b.shift; ; i = (i + 1) & mask {
		w := b.words[i].Load()
		if w == 0 {
			return i, 0
		}
		// The bits kept of the hash agree: compare the keys. The load of w has made the record
		// visible that w refers to, as Add completes records before it stores their bucket.
		if (w^hash)&^refMask == 0 {
			head = ref(w & refMask)
			if bytes.Equal(a.at(head).keyBytes(), key) {
				return i, head
			}
		}
	}
}
