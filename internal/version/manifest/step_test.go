package manifest

import (
	"encoding/binary"

	"github.com/brockdb/brock/vfs"
)

var le = binary.LittleEndian

// stepFS calls back around each call that changes files.
type stepFS struct {
	vfs.FS
	calls  int
	before func(call int) error // an error is the call's result
	after  func(call int) error
}

func (s *stepFS) do(call func() error) error {
	s.calls++
	n := s.calls
	if s.before != nil {
		if err := s.before(n); err != nil {
			return err
		}
	}
	err := call()
	if err == nil && s.after != nil {
		err = s.after(n)
	}
	return err
}

func (s *stepFS) Create(name string) (f vfs.File, err error) {
	err = s.do(func() error { f, err = s.FS.Create(name); return err })
	return &stepFile{f, s}, err
}

func (s *stepFS) OpenReadWrite(name string) (f vfs.File, err error) {
	err = s.do(func() error { f, err = s.FS.OpenReadWrite(name); return err })
	return &stepFile{f, s}, err
}

func (s *stepFS) Remove(name string) error { return s.do(func() error { return s.FS.Remove(name) }) }

func (s *stepFS) Rename(from, to string) error {
	return s.do(func() error { return s.FS.Rename(from, to) })
}

func (s *stepFS) MkdirAll(dir string) error { return s.do(func() error { return s.FS.MkdirAll(dir) }) }

func (s *stepFS) SyncDir(dir string) error { return s.do(func() error { return s.FS.SyncDir(dir) }) }

type stepFile struct {
	vfs.File
	s *stepFS
}

func (f *stepFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.s.do(func() error { n, err = f.File.WriteAt(p, off); return err })
	return n, err
}

func (f *stepFile) Truncate(size int64) error {
	return f.s.do(func() error { return f.File.Truncate(size) })
}

func (f *stepFile) Sync() error { return f.s.do(f.File.Sync) }

func (f *stepFile) SyncData() error { return f.s.do(f.File.SyncData) }
