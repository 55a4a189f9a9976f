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

// Resident asks mincore(2), which for a file looks into the page cache, and takes 60 ns for each
// page. If there are many pages, it asks cachestat(2) first. That tells in an eighth of the time
// whether all or none of them are there, which is most often so.
func (m *osMapping) Resident(off int64, pages []byte) error {
	if os.Getpagesize() != residentPage {
		return errors.ErrUnsupported
	}
	n := len(pages)
	cached := -1
	if n >= manyPages {
		// Without the mutex: cachestat needs the file, not the mapping.
		cached = m.cachedPages(off, n)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.data == nil {
		return os.ErrClosed
	}
	if off < 0 || off%residentPage != 0 || n == 0 || off > int64(len(m.data))-int64(n-1)*residentPage-1 {
		return os.ErrInvalid
	}
	if cached != 0 && cached != n {
		return m.minCore(off, pages)
	}
	// cachestat also counts pages that the system is still reading, of which the last page comes
	// last, and finds none in an overlay of file systems. So ask mincore of the last page, too.
	if err := m.minCore(off+int64(n-1)*residentPage, pages[n-1:]); err != nil {
		return err
	}
	if in := pages[n-1]&1 != 0; in != (cached == n) {
		return m.minCore(off, pages)
	}
	for i := range pages {
		pages[i] = pages[n-1]
	}
	return nil
}

// minCore asks mincore(2) about the pages from off on.
func (m *osMapping) minCore(off int64, pages []byte) error {
	n := min(int64(len(pages))*residentPage, int64(len(m.data))-off)
	if _, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m.data[off])), uintptr(n), uintptr(unsafe.Pointer(&pages[0]))); e != 0 {
		return e
	}
	return nil
}

const manyPages = 64 // from which on cachestat is asked first

// cachedPages returns how many of n pages are in the page cache; -1 if the system doesn't tell.
// Linux tells since 6.5, of a file that is open.
func (m *osMapping) cachedPages(off int64, n int) int {
	var found unix.Cachestat_t
	at := unix.CachestatRange{Off: uint64(off), Len: uint64(n) * residentPage}
	var err error
	// Fails once the descriptor was closed, which the mapping outlives.
	failed := m.file.Control(func(fd uintptr) { err = unix.Cachestat(uint(fd), &at, &found, 0) })
	if failed != nil || err != nil {
		return -1
	}
	return int(found.Cache)
}
