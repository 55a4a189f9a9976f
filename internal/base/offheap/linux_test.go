//go:build linux && !race

package offheap

const offHeap = true
