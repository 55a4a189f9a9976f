package faultfs

import (
	"slices"

	"github.com/brockdb/brock/vfs"
)

// file is an open file. Its Name is that of the file below.
type file struct {
	vfs.File
	fs *faults
}

func (f *file) op(kind Kind, off, n int64) Op {
	return Op{Kind: kind, Path: f.Name(), Offset: off, Len: n}
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if err := f.fs.fail(f.op(Read, off, int64(len(p)))); err != nil {
		return 0, err
	}
	n, err := f.File.ReadAt(p, off)
	for _, damage := range f.fs.rotOf(f.Name()) {
		damage(off, p[:n])
	}
	return n, err
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	return f.WriteVec([][]byte{p}, off)
}

func (f *file) WriteVec(bufs [][]byte, off int64) (int, error) {
	total := 0
	for _, b := range bufs {
		total += len(b)
	}
	op := f.op(Write, off, int64(total))
	if p := f.fs.begin(op); p != nil {
		n := 0
		if p.Short {
			n, _ = f.File.WriteAt(slices.Concat(bufs...)[:total/2], off)
		}
		return n, p.failure(op)
	}
	n, err := f.File.WriteVec(bufs, off)
	if f.fs.maps != nil {
		f.fs.updateMaps(f.Name(), slices.Concat(bufs...)[:n], off)
	}
	return n, err
}

func (f *file) Truncate(size int64) error {
	if err := f.fs.fail(f.op(Truncate, size, 0)); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *file) Sync() error { return f.sync(Sync, f.File.Sync) }

func (f *file) SyncData() error { return f.sync(SyncData, f.File.SyncData) }

func (f *file) sync(kind Kind, do func() error) error {
	if err := f.fs.fail(f.op(kind, 0, 0)); err != nil {
		if d, ok := f.File.(interface{ DropUnsynced() }); ok {
			d.DropUnsynced()
		}
		return err
	}
	return do()
}

// DropUnsynced passes the call on, for an FS over another FS.
func (f *file) DropUnsynced() {
	if d, ok := f.File.(interface{ DropUnsynced() }); ok {
		d.DropUnsynced()
	}
}

func (f *file) StartRead(off, n int64) {
	if f.fs.begin(f.op(ReadStart, off, n)) == nil {
		f.File.StartRead(off, n)
	}
}

func (f *file) StartWriteback(off, n int64) {
	if f.fs.begin(f.op(Writeback, off, n)) == nil {
		f.File.StartWriteback(off, n)
	}
}

func (f *file) Size() (int64, error) {
	if err := f.fs.fail(f.op(Size, 0, 0)); err != nil {
		return 0, err
	}
	return f.File.Size()
}

func (f *file) Map(size int64) (vfs.Mapping, error) {
	if err := f.fs.fail(f.op(Map, size, 0)); err != nil {
		return nil, err
	}
	if f.fs.maps != nil {
		return f.ownMap(size)
	}
	m, err := f.File.Map(size)
	if err != nil {
		return nil, err
	}
	if rot := f.fs.rotOf(f.Name()); len(rot) > 0 {
		return f.rotten(m, rot)
	}
	return m, nil
}

func (f *file) Close() error {
	err := f.fs.fail(f.op(Close, 0, 0))
	if closed := f.File.Close(); err == nil {
		err = closed
	}
	return err
}
