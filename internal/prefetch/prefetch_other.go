//go:build !(amd64 || arm64) || race

package prefetch

// Bytes asks for b, of which whoever reads it soon should not ask for more than
// a few kilobytes: the processor has room for so much.
func Bytes([]byte) {}
