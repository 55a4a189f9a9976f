package journal

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/vfs"
)

// disk is a vfs.FS that keeps what was written apart from what was synced, and
// fails on demand, so that a test can make any image that a crash may leave.
type disk struct {
	vfs.FS // what is not implemented below is not used
	mu     sync.Mutex
	files  map[string]*inode // names as they are now
	names  map[string]*inode // names as of the last SyncDir
	fail   func(op, name string) error
	syncs  int
	onRead func(n int) // unless nil: told of bytes that are read
}

type inode struct{ data, synced []byte }

func newDisk() *disk { return &disk{files: map[string]*inode{}, names: map[string]*inode{}} }

var errDisk = errors.New("input/output error")

func (d *disk) check(op, name string) error {
	if d.fail != nil {
		return d.fail(op, filepath.Base(name))
	}
	return nil
}

func (d *disk) Create(name string) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.check("create", name); err != nil {
		return nil, err
	}
	if d.files[name] != nil {
		return nil, fs.ErrExist
	}
	d.files[name] = new(inode)
	return &handle{d: d, f: d.files[name], name: name}, nil
}

func (d *disk) Open(name string) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[name] == nil {
		return nil, fs.ErrNotExist
	}
	return &handle{d: d, f: d.files[name], name: name}, nil
}

func (d *disk) OpenReadWrite(name string) (vfs.File, error) { return d.Open(name) }

func (d *disk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[from] == nil {
		return fs.ErrNotExist
	}
	if d.files[to] != nil {
		return fs.ErrExist
	}
	d.files[to] = d.files[from]
	delete(d.files, from)
	return nil
}

func (d *disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[name] == nil {
		return fs.ErrNotExist
	}
	delete(d.files, name)
	return nil
}

func (d *disk) List(string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var names []string
	for _, n := range slices.Sorted(maps.Keys(d.files)) {
		names = append(names, filepath.Base(n))
	}
	return names, nil
}

func (d *disk) SyncDir(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.check("syncdir", dir); err != nil {
		return err
	}
	d.names = maps.Clone(d.files)
	d.syncs++
	return nil
}

// crash returns the disk after a power failure: of what was not synced, each
// name and each sector is kept with probability keep.
func (d *disk) crash(rnd *rand.Rand, keep float64) *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := newDisk()
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		if d.names[name] == nil && rnd.Float64() >= keep {
			continue
		}
		f := d.files[name]
		size := max(len(f.synced), len(f.data))
		if len(f.synced) != len(f.data) && rnd.Float64() >= keep {
			size = len(f.synced)
		}
		b := make([]byte, size)
		const sector = 512
		for at := 0; at < size; at += sector {
			from := f.synced
			if rnd.Float64() < keep {
				from = f.data
			}
			if at < len(from) {
				copy(b[at:min(at+sector, size)], from[at:])
			}
		}
		out.files[name] = &inode{data: b, synced: bytes.Clone(b)}
	}
	out.names = maps.Clone(out.files)
	return out
}

// kill returns the disk as the next process sees it when this one is killed.
func (d *disk) kill() *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := newDisk()
	for name, f := range d.files {
		out.files[name] = &inode{data: bytes.Clone(f.data), synced: bytes.Clone(f.synced)}
		if d.names[name] == f {
			out.names[name] = out.files[name]
		}
	}
	return out
}

type handle struct {
	vfs.File // what is not implemented below is not used
	d        *disk
	f        *inode
	name     string
}

func (h *handle) ReadAt(p []byte, off int64) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if err := h.d.check("read", h.name); err != nil {
		return 0, err
	}
	if off >= int64(len(h.f.data)) {
		return 0, io.EOF
	}
	n := copy(p, h.f.data[off:])
	if h.d.onRead != nil {
		h.d.onRead(n)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (h *handle) WriteAt(p []byte, off int64) (int, error) { return h.WriteVec([][]byte{p}, off) }

func (h *handle) WriteVec(bufs [][]byte, off int64) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	p := bytes.Join(bufs, nil)
	err := h.d.check("write", h.name)
	if err != nil {
		p = p[:len(p)/2]
	}
	h.grow(off + int64(len(p)))
	return copy(h.f.data[off:], p), err
}

func (h *handle) grow(size int64) {
	if n := size - int64(len(h.f.data)); n > 0 {
		h.f.data = append(h.f.data, make([]byte, n)...)
	}
}

func (h *handle) Truncate(size int64) error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	h.grow(size)
	h.f.data = h.f.data[:size:size]
	return nil
}

func (h *handle) Sync() error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if err := h.d.check("sync", h.name); err != nil {
		return err
	}
	h.f.synced = bytes.Clone(h.f.data)
	h.d.syncs++
	return nil
}

func (h *handle) Name() string                   { return h.name }
func (h *handle) SyncData() error                { return h.Sync() }
func (h *handle) StartWriteback(_, _ int64)      {}
func (h *handle) StartRead(_, _ int64)           {}
func (h *handle) Close() error                   { return nil }
func (h *handle) Map(int64) (vfs.Mapping, error) { return nil, errors.ErrUnsupported }

func (h *handle) Size() (int64, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	return int64(len(h.f.data)), nil
}

// End is how far the journal goes.
type End struct {
	Segment entry.FileNum // the segment being written, or the last one
	Offset  int64         // the end of its last frame
	Frame   uint64        // number of the last frame; 0 = none
	Durable uint64        // number of the last frame known to be durable
}

// End returns how far the journal goes.
func (j *Journal) End() End {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := End{Segment: j.point.File, Frame: j.point.Number, Durable: j.proven.Number}
	if n := len(j.live); n > 0 {
		e.Offset = j.live[n-1].Offset
	}
	return e
}
