//go:build !(amd64 || arm64) || race

package offheap

// Prefetch asks the processor for b, which will be read soon. Ask for a few kilobytes at
// most: the processor has room for no more. It changes nothing but time: memory that is not
// mapped is passed over, and some systems do nothing at all.
func Prefetch([]byte) {}
