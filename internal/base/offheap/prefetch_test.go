package offheap

import "testing"

// cacheLine is the unit in which processors have memory brought near, in bytes.
const cacheLine = 64

// Any slice will do, and what is in it stays as it is.
func TestPrefetch(t *testing.T) {
	Prefetch(nil)
	Prefetch([]byte{})
	b := make([]byte, 8*cacheLine)
	for from := range cacheLine + 2 {
		for n := range 2*cacheLine + 2 {
			Prefetch(b[from : from+n])
		}
	}
	for i, c := range b {
		if c != 0 {
			t.Fatalf("byte %d has become %d", i, c)
		}
	}
}
