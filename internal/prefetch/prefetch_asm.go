//go:build (amd64 || arm64) && !race

package prefetch

import "unsafe"

// Bytes asks for b, of which whoever reads it soon should not ask for more than
// a few kilobytes: the processor has room for so much.
func Bytes(b []byte) {
	if len(b) > 0 {
		lines(unsafe.Pointer(unsafe.SliceData(b)), len(b))
	}
}

// lines asks for the lines that p, and so many bytes from there on, are in.
//
//go:noescape
func lines(p unsafe.Pointer, n int)
