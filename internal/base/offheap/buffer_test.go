package offheap

import (
	"bytes"
	"testing"
)

func TestBufferKeepsWhatIsInIt(t *testing.T) {
	var b Buffer
	var p, want []byte
	for _, n := range []int{1, 100, minMapped - 1, minMapped, 3 * minMapped, 2 << 20} {
		p = b.Grow(p, n)
		if cap(p) < n || !bytes.Equal(p, want) {
			t.Fatalf("room for %d bytes, want %d; contents as before: %v", cap(p), n, bytes.Equal(p, want))
		}
		if q := b.Grow(p, n/2); cap(q) < n || !bytes.Equal(q, want) {
			t.Fatal("a buffer got smaller")
		}
		for len(p) < n {
			p = append(p, byte(len(p)))
			want = append(want, byte(len(want)))
		}
	}
	b.Free()
	b.Free() // does nothing
	if p = b.Grow(nil, 10); cap(p) < 10 {
		t.Error("a freed buffer can't be used again")
	}
	b.Free()
}
