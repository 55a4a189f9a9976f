//go:build !(amd64 || arm64) || race

package prefetch

// Bytes asks the processor for b, which will be read soon. Ask for a few kilobytes at
// most: the processor has room for no more.
func Bytes([]byte) {}
