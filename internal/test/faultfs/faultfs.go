// Package faultfs is a vfs.FS over another one. It counts operations, shows each to
// the test before it is done, and makes chosen ones fail or return damaged bytes.
//
// To try all failures of some work, let the Nth operation fail for N = 1, 2, 3 and
// so on, until a run ends without a failed operation. To try all crashes, clone a
// vfs.Mem in Options.Before.
package faultfs

import (
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"github.com/brockdb/brock/vfs"
)

// Options of New. The zero value is good.
type Options struct {
	// Before is called before each operation, failing ones too, in the goroutine
	// that does the operation and without locks. It may block, to delay the
	// operation. Several goroutines may call it at once.
	Before func(Op)
	// OwnMaps gives every mapping memory of its own, which follows writes through this FS.
	// So the mapping and ReadAt may return different bytes, as pages that were read from the
	// medium at different times may: RotMaps damages mappings, and not what ReadAt returns.
	OwnMaps bool
}

// FS is the file system with faults. Its methods may run together.
type FS struct {
	base vfs.FS
	*faults
}

// faults are shared by a file system and all directories of it that are held open.
type faults struct {
	before func(Op)
	maps   map[*ownMap]struct{} // guarded by mu; nil without Options.OwnMaps

	mu     sync.Mutex // guards:
	n      int        // number of the last operation
	counts map[count]int
	plans  []*planned
	struck int
	rot    []rot
}

// count is the key by which operations are counted.
type count struct {
	kind Kind
	base string // base name of the path
}

// New returns a file system over base, without faults.
func New(base vfs.FS, o Options) *FS {
	f := &FS{base, &faults{before: o.Before, counts: map[count]int{}}}
	if o.OwnMaps {
		f.maps = map[*ownMap]struct{}{}
	}
	return f
}

// Inject adds faults. If several strike one operation, the first one is used.
func (f *faults) Inject(faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range faults {
		f.plans = append(f.plans, &planned{Fault: fault})
	}
}

// Heal removes all faults and all rot.
func (f *faults) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plans, f.rot = nil, nil
}

// Struck returns how many operations a fault has made fail so far.
func (f *faults) Struck() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.struck
}

// Count returns how many operations of these kinds there were so far on files whose
// base name contains part.
func (f *faults) Count(kinds Kind, part string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for c, k := range f.counts {
		if c.kind&kinds != 0 && strings.Contains(c.base, part) {
			n += k
		}
	}
	return n
}

// begin counts an operation, and calls Options.Before with it. It returns the fault that makes
// it fail; nil if there is none.
func (f *faults) begin(o Op) *planned {
	f.mu.Lock()
	f.n++
	o.N = f.n
	f.counts[count{o.Kind, filepath.Base(o.Path)}]++
	f.mu.Unlock()
	if f.before != nil {
		f.before(o)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var hit *planned
	for _, p := range f.plans {
		if p.strikes(o) && hit == nil {
			hit = p
		}
	}
	if hit != nil {
		f.struck++
	}
	return hit
}

// fail is begin for an operation that isn't done at all if it fails. It returns the error.
func (f *faults) fail(o Op) error {
	if p := f.begin(o); p != nil {
		return p.failure(o)
	}
	return nil
}

// failure returns the error of an operation that the fault makes fail.
func (p *planned) failure(o Op) error {
	err := p.Err
	if err == nil {
		err = ErrIO
	}
	return &fs.PathError{Op: o.Kind.String(), Path: o.Path, Err: err}
}

// OpenDirs implements vfs.FS. The directories have the same faults.
func (f *FS) OpenDirs(names ...string) (vfs.Dirs, error) {
	for _, name := range names {
		if err := f.fail(Op{Kind: OpenDir, Path: name}); err != nil {
			return nil, err
		}
	}
	held, err := f.base.OpenDirs(names...)
	if err != nil {
		return nil, err
	}
	return dirs{&FS{held, f.faults}, held}, nil
}

// dirs is directories held open.
type dirs struct {
	*FS
	io.Closer
}

// Create implements vfs.FS.
func (f *FS) Create(name string) (vfs.File, error) {
	if err := f.fail(Op{Kind: Create, Path: name}); err != nil {
		return nil, err
	}
	return f.wrap(f.base.Create(name))
}

// Open implements vfs.FS.
func (f *FS) Open(name string) (vfs.File, error) {
	if err := f.fail(Op{Kind: Open, Path: name}); err != nil {
		return nil, err
	}
	return f.wrap(f.base.Open(name))
}

// OpenReadWrite implements vfs.FS.
func (f *FS) OpenReadWrite(name string) (vfs.File, error) {
	if err := f.fail(Op{Kind: OpenReadWrite, Path: name}); err != nil {
		return nil, err
	}
	return f.wrap(f.base.OpenReadWrite(name))
}

func (f *FS) wrap(base vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &file{File: base, fs: f.faults}, nil
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	if err := f.fail(Op{Kind: Remove, Path: name}); err != nil {
		return err
	}
	return f.base.Remove(name)
}

// Rename implements vfs.FS.
func (f *FS) Rename(from, to string) error {
	if err := f.fail(Op{Kind: Rename, Path: from, To: to}); err != nil {
		return err
	}
	return f.base.Rename(from, to)
}

// Link implements vfs.FS.
func (f *FS) Link(from, to string) error {
	if err := f.fail(Op{Kind: Link, Path: from, To: to}); err != nil {
		return err
	}
	return f.base.Link(from, to)
}

// Clone implements vfs.FS.
func (f *FS) Clone(from, to string) error {
	if err := f.fail(Op{Kind: Clone, Path: from, To: to}); err != nil {
		return err
	}
	return f.base.Clone(from, to)
}

// MkdirAll implements vfs.FS.
func (f *FS) MkdirAll(dir string) error {
	if err := f.fail(Op{Kind: MkdirAll, Path: dir}); err != nil {
		return err
	}
	return f.base.MkdirAll(dir)
}

// List implements vfs.FS.
func (f *FS) List(dir string) ([]string, error) {
	if err := f.fail(Op{Kind: List, Path: dir}); err != nil {
		return nil, err
	}
	return f.base.List(dir)
}

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (vfs.Info, error) {
	if err := f.fail(Op{Kind: Stat, Path: name}); err != nil {
		return vfs.Info{}, err
	}
	return f.base.Stat(name)
}

// SyncDir implements vfs.FS.
func (f *FS) SyncDir(dir string) error {
	if err := f.fail(Op{Kind: SyncDir, Path: dir}); err != nil {
		// Without a descriptor to open the directory, nothing was synced, and nothing was lost.
		if d, ok := f.base.(interface{ DropUnsynced(name string) }); ok && !vfs.IsOutOfFiles(err) {
			d.DropUnsynced(dir)
		}
		return err
	}
	return f.base.SyncDir(dir)
}

// Lock implements vfs.FS.
func (f *FS) Lock(name string, shared bool) (io.Closer, error) {
	if err := f.fail(Op{Kind: Lock, Path: name}); err != nil {
		return nil, err
	}
	return f.base.Lock(name, shared)
}

// Free implements vfs.FS.
func (f *FS) Free(dir string) (int64, error) {
	if err := f.fail(Op{Kind: Free, Path: dir}); err != nil {
		return -1, err
	}
	return f.base.Free(dir)
}
