//go:build (linux || darwin || freebsd) && (amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64 || s390x)

package vfs

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// osMapping is a mapping by the operating system.
type osMapping struct {
	file syscall.RawConn // of the file that is mapped, which may be closed

	mu   sync.Mutex
	data []byte // mapped bytes; nil: it is closed
}

// mapFile maps a file. Beyond the end of the file it maps only on Linux: on other systems it isn't
// certain that the mapping shows bytes that are written later.
func mapFile(f *os.File, size int64) (Mapping, error) {
	if size <= 0 || size != int64(int(size)) {
		return nil, errors.ErrUnsupported
	}
	if runtime.GOOS != "linux" {
		i, err := f.Stat()
		if err != nil {
			return nil, err
		}
		if size > i.Size() {
			return nil, errors.ErrUnsupported
		}
	}
	// The descriptor can't be closed, and its number not be reused, during Control.
	c, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var data []byte
	failed := c.Control(func(fd uintptr) {
		data, err = unix.Mmap(int(fd), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	})
	if err := errors.Join(failed, err); err != nil {
		if errors.Is(err, unix.ENODEV) {
			return nil, errors.ErrUnsupported // this file system maps nothing
		}
		return nil, err
	}
	// Else a page fault would read megabytes around the page, and pages that are in use would leave
	// memory for them.
	_ = unix.Madvise(data, unix.MADV_RANDOM)
	return &osMapping{file: c, data: data}, nil
}

func (m *osMapping) Data() []byte { return m.data }

func (m *osMapping) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	data := m.data
	if data == nil {
		return nil
	}
	// Before Munmap: another mapping may get these addresses at once.
	m.data = nil
	return unix.Munmap(data)
}
