package memtable

import (
	"bytes"
	"math/rand/v2"
	"sync/atomic"
	"unsafe" // as arena skip lists do: nodes lie in a byte slice

	"github.com/brockdb/brock/internal/base/entry"
)

// skipList is what the table is measured against: the arena skip list of other
// engines, with towers of atomic offsets, compare-and-swap inserts and full keys
// compared on the way down. It only knows how to add.
type skipList struct {
	mem    []byte
	used   uint32
	height int
	head   *skipNode
	rnd    *rand.PCG
}

const skipHeight = 20

// skipNode is cut to the height of its tower in the arena; the key and then the
// value follow at the given offset.
type skipNode struct {
	data    uint32
	keyLen  uint32
	valLen  uint32
	version uint64
	next    [skipHeight]atomic.Uint32
}

func newSkipList(size int) *skipList {
	l := &skipList{mem: make([]byte, size), used: 8, height: 1, rnd: rand.NewPCG(5, 6)}
	l.head = l.node(l.alloc(int(unsafe.Sizeof(skipNode{}))))
	return l
}

func (l *skipList) alloc(n int) uint32 {
	off := l.used
	l.used += uint32(n+7) &^ 7
	return off
}

func (l *skipList) node(off uint32) *skipNode {
	return (*skipNode)(unsafe.Pointer(&l.mem[off]))
}

func (l *skipList) key(n *skipNode) []byte { return l.mem[n.data : n.data+n.keyLen] }

// before reports whether n sorts before e.
func (l *skipList) before(n *skipNode, e *entry.Entry) bool {
	if c := bytes.Compare(l.key(n), e.Key); c != 0 {
		return c < 0
	}
	return n.version > uint64(e.Version)
}

func (l *skipList) add(e *entry.Entry) {
	height := 1
	for height < skipHeight && l.rnd.Uint64()%3 == 0 {
		height++
	}
	var prev [skipHeight]*skipNode
	var next [skipHeight]uint32
	at := l.head
	l.height = max(l.height, height)
	for h := l.height - 1; h >= 0; h-- {
		off := at.next[h].Load()
		for off != 0 {
			n := l.node(off)
			if !l.before(n, e) {
				break
			}
			at, off = n, n.next[h].Load()
		}
		prev[h], next[h] = at, off
	}
	off := l.alloc(int(unsafe.Offsetof(skipNode{}.next)) + 4*height)
	n := l.node(off)
	n.data = l.alloc(len(e.Key) + len(e.Value))
	copy(l.mem[n.data:], e.Key)
	copy(l.mem[int(n.data)+len(e.Key):], e.Value)
	n.keyLen, n.valLen, n.version = uint32(len(e.Key)), uint32(len(e.Value)), uint64(e.Version)
	for h := range height {
		n.next[h].Store(next[h])
		if !prev[h].next[h].CompareAndSwap(next[h], off) {
			panic("one writer only")
		}
	}
}
