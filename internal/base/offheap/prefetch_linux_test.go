package offheap

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Memory that can't be read, as behind the end of a file that was cut, is passed over.
func TestUnreadableMemory(t *testing.T) {
	b, err := unix.Mmap(-1, 0, 1<<16, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	Prefetch(b)
	if err := unix.Munmap(b); err != nil {
		t.Fatal(err)
	}
}
