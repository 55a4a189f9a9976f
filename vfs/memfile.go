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
	durable content  // what every crash leaves, at least
	pending []change // the changes from durable to now, oldest first
	dropped bool     // changes were dropped from pending by a failed sync
	writers int      // handles that are open for writing
	maps    []*memMapping
}

// writeAt writes p at off.
func (f *memFile) writeAt(seq uint64, p []byte, off int64) {
	f.change(change{seq: seq, off: off, data: slices.Clone(p)}) // the caller may reuse p at once
}

// setSize sets the size.
func (f *memFile) setSize(seq uint64, size int64) {
	f.change(change{seq: seq, resize: true, size: size})
}

// change makes a change, which is not durable yet.
func (f *memFile) change(c change) {
	f.now.apply(&c)
	if len(f.maps) > 0 {
		f.showInMaps(&c)
	}
	// The size after it, for Chaos, which chooses among the sizes that the file had.
	c.size = f.now.size
	f.pending = append(f.pending, c)
}

// showInMaps makes a change in what is mapped. What a resize cuts off is zeros there: a test does
// not survive the signal that other systems send.
func (f *memFile) showInMaps(c *change) {
	f.detachMaps()
	for _, m := range f.maps {
		if c.resize && c.size < int64(len(m.data)) {
			clear(m.data[c.size:])
		}
		if c.off < int64(len(m.data)) {
			copy(m.data[c.off:], c.data)
		}
	}
}

// detachMaps gives the contents memory of their own in place of what is mapped.
func (f *memFile) detachMaps() {
	for _, m := range f.maps {
		f.now.copyShared(m)
		f.durable.copyShared(m)
	}
}

// sync makes all changes durable, by whole chunks as they are now.
func (f *memFile) sync() {
	// Chunks are shared with the current content, so a sync copies nothing.
	for i := range f.pending {
		c := &f.pending[i]
		if c.resize {
			f.durable.setSize(c.size)
			continue
		}
		for k := range c.chunks() {
			// The whole chunk as it is now: later changes in it are in pending as well, and made
			// durable too.
			f.durable.shareChunk(k, f.now.share(k))
		}
		f.durable.size = max(f.durable.size, c.end())
	}
	f.pending = nil
	// A chunk may also have bytes beyond the size: those of a later write before a resize, or of a
	// change that was dropped. The resize makes them zeros.
	if limit := f.durable.size; f.dropped || limit != f.now.size {
		f.durable.setSize(limit)
	}
}

// dropUnsynced forgets that there is something to sync.
func (f *memFile) dropUnsynced() {
	f.dropped = f.dropped || len(f.pending) > 0
	f.pending = nil
}

// memHandle is an open file.
type memHandle struct {
	m     *Mem
	f     *memFile // nil: it is closed, and keeps no memory; guarded by m.mu
	name  string
	write bool
}

// handle opens f; the mutex is held.
func (m *Mem) handle(name string, f *memFile, write bool) *memHandle {
	if write {
		f.writers++
	}
	return &memHandle{m: m, f: f, name: name, write: write}
}

// Name implements File.
func (h *memHandle) Name() string { return h.name }

// checkOpen reports why a call can't be served; the mutex is held.
func (h *memHandle) checkOpen(op string, write bool, off int64) error {
	switch {
	case h.f == nil:
		return pathError(op, h.name, fs.ErrClosed)
	case write && !h.write:
		return pathError(op, h.name, fs.ErrPermission)
	case off < 0:
		return pathError(op, h.name, fs.ErrInvalid)
	}
	return nil
}

// checkRange returns an error for a range that ends beyond maxMemFile.
func (h *memHandle) checkRange(op string, off, n int64) error {
	if off > maxMemFile || n > maxMemFile-off {
		return pathError(op, h.name, errors.New("file too large"))
	}
	return nil
}

// ReadAt implements File.
func (h *memHandle) ReadAt(p []byte, off int64) (int, error) {
	h.m.mu.RLock()
	defer h.m.mu.RUnlock()
	if err := h.checkOpen("read", false, off); err != nil {
		return 0, err
	}
	n := h.f.now.readAt(p, off)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements File.
func (h *memHandle) WriteAt(p []byte, off int64) (int, error) {
	return h.WriteVec([][]byte{p}, off)
}

// WriteVec implements File: all buffers are one change, which a crash may tear.
func (h *memHandle) WriteVec(bufs [][]byte, off int64) (int, error) {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if err := h.checkOpen("write", true, off); err != nil {
		return 0, err
	}
	// One change, not one for each buffer: a crash tears it at any sector, as it does one call.
	joined := slices.Concat(bufs...)
	if len(joined) == 0 {
		return 0, nil
	}
	if err := h.checkRange("write", off, int64(len(joined))); err != nil {
		return 0, err
	}
	// On a full disk, write what fits: a short write, as systems do.
	fit := min(int64(len(joined)), max(0, h.m.greatestSize(h.f)-off))
	if fit > 0 {
		h.f.writeAt(h.m.nextSeq(), joined[:fit], off)
	}
	if fit < int64(len(joined)) {
		return int(fit), pathError("write", h.name, errMemFull)
	}
	return len(joined), nil
}

// Truncate implements File.
func (h *memHandle) Truncate(size int64) error {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if err := h.checkOpen("truncate", true, size); err != nil {
		return err
	}
	if err := h.checkRange("truncate", size, 0); err != nil {
		return err
	}
	if size > h.f.now.size && size > h.m.greatestSize(h.f) {
		return pathError("truncate", h.name, errMemFull)
	}
	h.f.setSize(h.m.nextSeq(), size)
	return nil
}

// Sync implements File.
func (h *memHandle) Sync() error {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if err := h.checkOpen("sync", false, 0); err != nil {
		return err
	}
	h.f.sync()
	return nil
}

// SyncData is Sync: a Mem keeps no times.
func (h *memHandle) SyncData() error { return h.Sync() }

// StartWriteback does nothing: only a sync makes bytes durable.
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

// Size implements File.
func (h *memHandle) Size() (int64, error) {
	h.m.mu.RLock()
	defer h.m.mu.RUnlock()
	if err := h.checkOpen("size", false, 0); err != nil {
		return 0, err
	}
	return h.f.now.size, nil
}

// Map implements File.
func (h *memHandle) Map(size int64) (Mapping, error) {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if err := h.checkOpen("map", false, size); err != nil {
		return nil, err
	}
	// A file that may still grow would be made one piece of memory again and again.
	if size > h.f.now.size || h.f.writers > 0 {
		return nil, pathError("map", h.name, errors.ErrUnsupported)
	}
	m := &memMapping{disk: h.m.memDisk, file: h.f, size: size}
	// Mappings share memory that is large enough.
	if n := len(h.f.maps); n > 0 && size <= int64(len(h.f.maps[n-1].data)) {
		m.data = h.f.maps[n-1].data
	} else {
		m.data = h.f.flatten()
	}
	h.f.maps = append(h.f.maps, m)
	return m, nil
}

// flatten moves the content to one piece of memory. Where the durable content is the same, it
// shares that memory.
func (f *memFile) flatten() []byte {
	old := f.now.clone()
	flat := f.now.flatten()
	for i, c := range f.durable.chunks {
		if i < len(old.chunks) && c.data != nil && c.data == old.chunks[i].data {
			f.durable.shareChunk(i, f.now.share(i))
		}
	}
	return flat
}

// Close implements File. It syncs nothing.
func (h *memHandle) Close() error {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if err := h.checkOpen("close", false, 0); err != nil {
		return err
	}
	if h.write {
		h.f.writers--
	}
	h.f = nil
	return nil
}

// memMapping is a file in one piece of memory. Writes change it, as they do on other systems. The
// contents of the file share its chunks until then, so that a file that is mapped takes no more
// memory.
type memMapping struct {
	disk *memDisk
	file *memFile
	size int64
	data []byte // whole chunks, maybe shared with other mappings; nil: it is closed
}

// ownsChunk reports whether the memory of chunk i is the mapping's.
func (m *memMapping) ownsChunk(i int, data *[chunkSize]byte) bool {
	return data != nil && (i+1)*chunkSize <= len(m.data) && data == (*[chunkSize]byte)(m.data[i*chunkSize:])
}

// Data implements Mapping.
func (m *memMapping) Data() []byte {
	if m.data == nil {
		return nil
	}
	return m.data[:m.size:m.size]
}

// Close implements Mapping.
func (m *memMapping) Close() error {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	if m.file != nil {
		m.file.maps = slices.DeleteFunc(m.file.maps, func(other *memMapping) bool { return other == m })
	}
	m.data, m.file = nil, nil
	return nil
}
