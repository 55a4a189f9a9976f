package offheap

import (
	"fmt"
	"runtime"
	"testing"
	"unsafe" // to look at the alignment of a block
)

func TestAlloc(t *testing.T) {
	for _, n := range []int{-1, 0, 1, 4096, minMapped - 1, minMapped, minMapped + 1, 3<<20 + 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			for range 3 { // memory that comes back is zero too
				b, err := Alloc(n)
				if err != nil {
					t.Fatal(err)
				}
				if len(b) != max(n, 0) {
					t.Fatalf("got %d bytes", len(b))
				}
				if uintptr(unsafe.Pointer(unsafe.SliceData(b)))%8 != 0 {
					t.Error("not aligned to 8")
				}
				for i := range b {
					if b[i] != 0 {
						t.Fatalf("byte %d is %d", i, b[i])
					}
					b[i] = 0xff
				}
				if err := Free(b); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestBlocksAreOffTheHeap(t *testing.T) {
	b, err := Alloc(64 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := Free(b); err != nil {
			t.Error(err)
		}
	}()
	if !offHeap {
		t.Skip("blocks are of the Go heap in this build")
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > 32<<20 {
		t.Errorf("%d bytes on the heap after allocating a block of %d beside it", m.HeapAlloc, len(b))
	}
}

func TestTooMuch(t *testing.T) {
	if !offHeap || unsafe.Sizeof(0) < 8 {
		t.Skip("the Go heap panics")
	}
	n := 1 << 30
	n <<= 30 // beyond any address space
	if _, err := Alloc(n); err == nil {
		t.Error("no error")
	}
}

func BenchmarkAllocFree(b *testing.B) {
	for _, n := range []int{1 << 16, 1 << 20, 64 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for range b.N {
				p, err := Alloc(n)
				if err != nil {
					b.Fatal(err)
				}
				if err := Free(p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
