package vfs

import (
	"io"
	"io/fs"
)

// LockFile implements FS. A crash clone has no locks.
func (m *Mem) LockFile(name string, shared bool) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.find(clean(name)).file
	if f == nil {
		return nil, pathError("lock", name, m.absent())
	}
	l := m.files[f]
	if l == nil {
		l = &memLocks{}
		m.files[f] = l
	}
	if l.exclusive || l.shared > 0 && !shared {
		return nil, &LockedError{Name: name, Shared: l.shared > 0}
	}
	if shared {
		l.shared++
	} else {
		l.exclusive = true
	}
	return &memFileLock{m: m, file: f, shared: shared}, nil
}

// memFileLock is a lock of a file that is held.
type memFileLock struct {
	m      *Mem
	file   *memFile
	shared bool
	closed bool // guarded by m.mu
}

func (l *memFileLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.closed {
		return fs.ErrClosed
	}
	l.closed = true
	held := l.m.files[l.file]
	if l.shared {
		held.shared--
	} else {
		held.exclusive = false
	}
	if held.shared == 0 && !held.exclusive {
		delete(l.m.files, l.file)
	}
	return nil
}
