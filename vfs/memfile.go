package vfs

import (
	"errors"
	"io"
	"io/fs"
	"slices"
)

// maxMemFile bounds the size of a file in memory: the list of its chunks takes 1/256 of its size,
// even if the file is one hole.
const maxMemFile = 64 << 30

// memFile is a file, with any number of names. The mutex of its Mem guards it.
type memFile struct {
	now     content  // what ReadAt returns
	durable content  // what each crash leaves at least
	pending []change // from durable to now, oldest first
	dropped bool     // pending lacks changes that a failed sync dropped
	writers int      // handles open for writing
	flat    []byte   // now in one piece, for mappings; nil if not made or outdated
}

// write writes p at off.
func (f *memFile) write(seq uint64, p []byte, off int64) {
	f.change(change{seq: seq, pieces: cut(p, off)})
}

// resize sets the size.
func (f *memFile) resize(seq uint64, size int64) {
	f.change(change{seq: seq, resize: true, size: size})
}

func (f *memFile) change(c change) {
	f.flat = nil
	f.now.apply(&c)
	c.size = f.now.size
	f.pending = append(f.pending, c)
}

// sync makes all changes durable, by whole chunks as they are now.
func (f *memFile) sync() {
	// Chunks are shared with the current content, so a sync copies nothing.
	for i := range f.pending {
		c := &f.pending[i]
		if c.resize {
			f.durable.resize(c.size)
			continue
		}
		for j := range c.pieces {
			p := &c.pieces[j]
			f.durable.set(p.chunk, f.now.share(p.chunk))
			f.durable.size = max(f.durable.size, p.end())
		}
	}
	f.pending = nil
	// A chunk may also have bytes beyond the size: those of a later write before a resize, or of a
	// change that was dropped. The resize makes them zeros.
	if limit := f.durable.size; f.dropped || limit != f.now.size {
		f.durable.resize(limit)
	}
}

func (f *memFile) dropUnsynced() {
	f.dropped = f.dropped || len(f.pending) > 0
	f.pending = nil
}

// memHandle is an open file.
type memHandle struct {
	m      *Mem
	f      *memFile
	name   string
	write  bool
	closed bool // guarded by m.mu
}

// handle opens f; the mutex is held.
func (m *Mem) handle(name string, f *memFile, write bool) *memHandle {
	if write {
		f.writers++
	}
	return &memHandle{m: m, f: f, name: name, write: write}
}

func (h *memHandle) Name() string { return h.name }

// check reports why a call can't be served; the mutex is held.
func (h *memHandle) check(op string, write bool, off int64) error {
	switch {
	case h.closed:
		return pathError(op, h.name, fs.ErrClosed)
	case write && !h.write:
		return pathError(op, h.name, fs.ErrPermission)
	case off < 0:
		return pathError(op, h.name, fs.ErrInvalid)
	}
	return nil
}

// fits returns an error for a range that ends beyond maxMemFile.
func (h *memHandle) fits(op string, off, n int64) error {
	if off > maxMemFile || n > maxMemFile-off {
		return pathError(op, h.name, errors.New("file too large"))
	}
	return nil
}

func (h *memHandle) ReadAt(p []byte, off int64) (int, error) {
	h.m.mu.RLock()
	defer h.m.mu.RUnlock()
	if err := h.check("read", false, off); err != nil {
		return 0, err
	}
	n := h.f.now.readAt(p, off)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (h *memHandle) WriteAt(p []byte, off int64) (int, error) {
	return h.WriteVec([][]byte{p}, off)
}

func (h *memHandle) WriteVec(bufs [][]byte, off int64) (int, error) {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if err := h.check("write", true, off); err != nil {
		return 0, err
	}
	joined := slices.Concat(bufs...)
	if len(joined) == 0 {
		return 0, nil
	}
	if err := h.fits("write", off, int64(len(joined))); err != nil {
		return 0, err
	}
	// On a full disk, write what fits: a short write, as systems do.
	fit := min(int64(len(joined)), max(0, h.m.grows(h.f)-off))
	if fit > 0 {
		h.f.write(h.m.next(), joined[:fit], off)
	}
	if fit < int64(len(joined)) {
		return int(fit), pathError("write", h.name, errMemFull)
	}
	return len(joined), nil
}

func (h *memHandle) Truncate(size int64) error {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if err := h.check("truncate", true, size); err != nil {
		return err
	}
	if err := h.fits("truncate", size, 0); err != nil {
		return err
	}
	if size > h.f.now.size && size > h.m.grows(h.f) {
		return pathError("truncate", h.name, errMemFull)
	}
	h.f.resize(h.m.next(), size)
	return nil
}

func (h *memHandle) Preallocate(off, n int64) error {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if err := h.check("preallocate", true, min(off, n)); err != nil {
		return err
	}
	if err := h.fits("preallocate", off, n); err != nil {
		return err
	}
	if off+n > h.f.now.size {
		if off+n > h.m.grows(h.f) {
			return pathError("preallocate", h.name, errMemFull)
		}
		h.f.resize(h.m.next(), off+n)
	}
	return nil
}

func (h *memHandle) Sync() error {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if err := h.check("sync", false, 0); err != nil {
		return err
	}
	h.f.sync()
	return nil
}

func (h *memHandle) SyncData() error { return h.Sync() }

func (h *memHandle) StartWriteback(int64, int64) {}

// StartRead does nothing: all is in memory.
func (h *memHandle) StartRead(int64, int64) {}

// DropUnsynced is Mem.DropUnsynced for a file that may have lost its name.
func (h *memHandle) DropUnsynced() {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if h.f != nil {
		h.f.dropUnsynced()
	}
}

func (h *memHandle) Size() (int64, error) {
	h.m.mu.RLock()
	defer h.m.mu.RUnlock()
	if err := h.check("size", false, 0); err != nil {
		return 0, err
	}
	return h.f.now.size, nil
}

func (h *memHandle) Map(size int64) (Mapping, error) {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if err := h.check("map", false, size); err != nil {
		return nil, err
	}
	// Data doesn't follow writes, so a file that may still be written isn't mapped.
	if size > h.f.now.size || h.f.writers > 0 {
		return nil, pathError("map", h.name, errors.ErrUnsupported)
	}
	if h.f.flat == nil {
		h.f.flat = h.f.flatten()
	}
	return &memMapping{data: h.f.flat[:size:size]}, nil
}

// flatten moves the content to one piece of memory. Where the durable content is the same, it
// shares that memory.
func (f *memFile) flatten() []byte {
	old := f.now.clone()
	flat := f.now.flatten()
	for i, c := range f.durable.chunks {
		if i < len(old.chunks) && c.data != nil && c.data == old.chunks[i].data {
			f.durable.set(i, f.now.share(i))
		}
	}
	return flat
}

func (h *memHandle) Close() error {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if err := h.check("close", false, 0); err != nil {
		return err
	}
	h.closed = true
	if h.write {
		h.f.writers--
	}
	h.f = nil // a closed handle keeps no memory
	return nil
}

// memMapping is memory that no write changes.
type memMapping struct{ data []byte }

func (m *memMapping) Data() []byte { return m.data }

func (m *memMapping) Advise(Advice) error { return nil }

func (m *memMapping) Close() error { m.data = nil; return nil }
