package vfs

import (
	"io/fs"
	"path/filepath"
)

// Exchanger is an FS that can exchange two names, as that of the operating system can on Linux and
// macOS, and Mem.
type Exchanger interface {
	FS
	// Exchange gives two files or directories of one directory each other's name. No crash leaves
	// anything between. It returns fs.ErrInvalid for names in two directories, and
	// errors.ErrUnsupported where the file system can't do that; then nothing has changed.
	Exchange(a, b string) error
}

// Exchange implements Exchanger.
func (f osFS) Exchange(a, b string) error {
	if filepath.Dir(filepath.Clean(a)) != filepath.Dir(filepath.Clean(b)) {
		return pathError("exchange", a, fs.ErrInvalid)
	}
	from, to, err := f.placesOf("exchange", a, b)
	if err != nil {
		return err
	}
	return renameFlags("exchange", from, to, renameExchange)
}

// Exchange implements Exchanger.
func (m *Mem) Exchange(a, b string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, from, err := m.dirOf("exchange", a)
	if err != nil {
		return err
	}
	other, to, err := m.dirOf("exchange", b)
	if err != nil {
		return err
	}
	if dir != other {
		return pathError("exchange", a, fs.ErrInvalid)
	}
	x, y := dir.entries[from], dir.entries[to]
	if x == (memNode{}) || y == (memNode{}) {
		return pathError("exchange", a, m.absentError())
	}
	// Two changes with one number: a crash leaves both or none.
	seq := m.nextSeq()
	dir.putNode(seq, from, y)
	dir.putNode(seq, to, x)
	return nil
}
