//go:build amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64 || s390x

package vfs

import (
	"errors"
	"os"
	"unsafe" // mincore has no wrapper in x/sys

	"golang.org/x/sys/unix"
)

// residentPage is the unit that Resident is asked in.
const residentPage = 4096

// Resident asks mincore(2), which for a file looks into the page cache.
func (m *osMapping) Resident(off int64, pages []byte) error {
	if os.Getpagesize() != residentPage {
		return errors.ErrUnsupported
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n := int64(len(pages)) * residentPage
	if m.data == nil {
		return os.ErrClosed
	}
	if off < 0 || off%residentPage != 0 || len(pages) == 0 || off > int64(len(m.data))-n+residentPage-1 {
		return os.ErrInvalid
	}
	_, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m.data[off])),
		uintptr(min(n, int64(len(m.data))-off)), uintptr(unsafe.Pointer(&pages[0])))
	if e != 0 {
		return e
	}
	return nil
}
