//go:build (amd64 || arm64) && !race

package offheap

import "unsafe"

// Prefetch asks the processor for b, which will be read soon. Ask for a few kilobytes at
// most: the processor has room for no more. It changes nothing but time: memory that is not
// mapped is passed over, and some systems do nothing at all.
func Prefetch(b []byte) {
	if len(b) > 0 {
		lines(unsafe.Pointer(unsafe.SliceData(b)), len(b))
	}
}

// lines asks for the cache lines that hold the n bytes from p on.
//
//go:noescape
func lines(p unsafe.Pointer, n int)
