//go:build linux && !race

package offheap

import "golang.org/x/sys/unix"

// hugePage is the usual size of one; smaller blocks don't hold any.
const hugePage = 2 << 20

// mapAnonymous returns zero memory of its own. It asks for huge pages, since random
// access to a big table waits mostly for TLB misses; kernels may refuse.
func mapAnonymous(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err == nil && n >= hugePage {
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
	}
	return b, err
}

// unmap gives memory back to the system.
func unmap(b []byte) error { return unix.Munmap(b) }
