package prefetch

import "testing"

// Any slice will do, and what is in it stays as it is.
func TestBytes(t *testing.T) {
	Bytes(nil)
	Bytes([]byte{})
	b := make([]byte, 8*Line)
	for from := range Line + 2 {
		for n := range 2*Line + 2 {
			Bytes(b[from : from+n])
		}
	}
	for i, c := range b {
		if c != 0 {
			t.Fatalf("byte %d has become %d", i, c)
		}
	}
}
