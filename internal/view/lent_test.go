package view

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/brockdb/brock/internal/base/invariant"
)

// All rooms of a Pin are its own until they are given back. Neither one Pin nor all get more than
// their bound.
func TestRoomIsLentWithinBounds(t *testing.T) {
	var all atomic.Int64
	take := func(l *lent, n int) (rooms [][]byte) {
		l.all = &all
		for {
			r := l.Room(n)
			if r == nil {
				return rooms
			}
			if len(r) != n || cap(r) != n {
				t.Fatalf("room for %d bytes has %d, capacity %d", n, len(r), cap(r))
			}
			for i := range r {
				r[i] = byte(len(rooms))
			}
			rooms = append(rooms, r)
		}
	}
	for _, n := range []int{0, 1, leastBlock - 1, leastBlock, leastBlock + 1, 10_000, leastBlock << (blockSizes - 1)} {
		var l lent
		if n == 0 {
			l.all = &all
			if r := l.Room(0); r == nil || len(r) != 0 {
				t.Errorf("room for nothing is %v", r)
			}
			l.returnBlocks()
			continue
		}
		rooms := take(&l, n)
		total := int64(len(rooms) * n)
		if total > maxLent || total < maxLent/8 || l.bytes > maxLent || all.Load() != l.bytes {
			t.Errorf("%d rooms of %d bytes in %d bytes, %d by all; the bound is %d", len(rooms), n, l.bytes, all.Load(), maxLent)
		}
		for i, r := range rooms {
			if !bytes.Equal(r, bytes.Repeat([]byte{byte(i)}, n)) {
				t.Fatalf("room %d of %d bytes: changed by another one", i, n)
			}
		}
		if l.returnBlocks(); all.Load() != 0 || l.last != nil || l.bytes != 0 {
			t.Errorf("%d bytes are left, %d of all", l.bytes, all.Load())
		}
	}
	l := lent{all: &all}
	if r := l.Room(leastBlock<<(blockSizes-1) + 1); r != nil {
		t.Errorf("room for %d bytes", len(r))
	}
	var many [maxAllLent/maxLent + 10]lent
	for i := range many {
		take(&many[i], leastBlock)
	}
	if n := all.Load(); n > maxAllLent || n < maxAllLent-maxLent {
		t.Errorf("%d bytes lent by all, the bound is %d", n, maxAllLent)
	}
	for i := range many {
		many[i].returnBlocks()
	}
	if n := all.Load(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

// What a reader has left is never lent again; what it gave back is overwritten under brockdebug.
func TestRoomThatIsLeftStays(t *testing.T) {
	var all atomic.Int64
	left := lent{all: &all}
	kept := left.Room(100)
	copy(kept, "in use")
	left.forgetBlocks()
	if n := all.Load(); n != 0 {
		t.Errorf("%d bytes are counted that nobody lends", n)
	}
	for range 100 {
		l := lent{all: &all}
		r := l.Room(100)
		copy(r, "another value")
		l.returnBlocks()
		if invariant.Poisons && bytes.Contains(r, []byte("another")) {
			t.Error("not overwritten")
		}
	}
	if string(kept[:6]) != "in use" {
		t.Errorf("memory in use was lent again: %q", kept[:6])
	}
}

// Several goroutines may read by one Pin.
func TestRoomsOfManyGoroutines(t *testing.T) {
	var all atomic.Int64
	l := lent{all: &all}
	var wg sync.WaitGroup
	for g := range byte(8) {
		wg.Go(func() {
			var rooms [][]byte
			for r := l.Room(300); r != nil; r = l.Room(300) {
				for i := range r {
					r[i] = g
				}
				rooms = append(rooms, r)
			}
			for _, r := range rooms {
				if bytes.Count(r, []byte{g}) != len(r) {
					t.Error("two goroutines have one room")
				}
			}
		})
	}
	wg.Wait()
	l.returnBlocks()
}
