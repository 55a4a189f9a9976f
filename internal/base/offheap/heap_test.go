//go:build !linux || race

package offheap

const offHeap = false
