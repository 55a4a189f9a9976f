package metamorphic

import (
	"fmt"
	"sync"

	"github.com/brockdb/brock/vfs"
)

// handles is a Mem, or directories of one, that knows which files, mappings and
// directories are open.
type handles struct {
	vfs.FS
	*opened
}

// opened is what is open.
type opened struct {
	mu   sync.Mutex
	open map[any]string

	secrets *secrets // that nothing of what is written may show; may be nil
}

func countHandles(m *vfs.Mem) *handles { return &handles{m, &opened{open: map[any]string{}}} }

// leaks names what is open, and what was written in the clear; "" if nothing is.
func (o *opened) leaks() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := ""
	for _, name := range o.open {
		s += name + " "
	}
	return s + o.secrets.list()
}

func (o *opened) add(id any, name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open[id] = name
}

func (o *opened) remove(id any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.open, id)
}

// DropUnsynced of a directory does nothing: a file system that can't write its
// directories stops, so that no later sync lies about them.
func (h *handles) DropUnsynced(string) {}

func (h *handles) wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	w := &handle{File: f, h: h.opened}
	h.add(w, f.Name())
	return w, nil
}

func (h *handles) Create(name string) (vfs.File, error) { return h.wrap(h.FS.Create(name)) }
func (h *handles) Open(name string) (vfs.File, error)   { return h.wrap(h.FS.Open(name)) }
func (h *handles) OpenReadWrite(name string) (vfs.File, error) {
	return h.wrap(h.FS.OpenReadWrite(name))
}

func (h *handles) OpenDirs(names ...string) (vfs.Dirs, error) {
	held, err := h.FS.OpenDirs(names...)
	if err != nil {
		return nil, err
	}
	d := &heldDirs{handles{held, h.opened}, held}
	h.add(d, fmt.Sprint("directories ", names))
	return d, nil
}

type heldDirs struct {
	handles
	held vfs.Dirs
}

func (d *heldDirs) Close() error {
	d.remove(d)
	return d.held.Close()
}

type handle struct {
	vfs.File
	h *opened
}

func (f *handle) DropUnsynced() { f.File.(interface{ DropUnsynced() }).DropUnsynced() }

func (f *handle) WriteAt(b []byte, off int64) (int, error) {
	f.h.secrets.look("written to "+f.Name(), b)
	return f.File.WriteAt(b, off)
}

func (f *handle) WriteVec(bufs [][]byte, off int64) (int, error) {
	for _, b := range bufs {
		f.h.secrets.look("written to "+f.Name(), b)
	}
	return f.File.WriteVec(bufs, off)
}

func (f *handle) Close() error {
	f.h.remove(f)
	return f.File.Close()
}

func (f *handle) Map(size int64) (vfs.Mapping, error) {
	m, err := f.File.Map(size)
	if err != nil {
		return nil, err
	}
	w := &mapped{m, f.h}
	f.h.add(w, fmt.Sprintf("mapping of %s", f.Name()))
	return w, nil
}

type mapped struct {
	vfs.Mapping
	h *opened
}

func (m *mapped) Close() error {
	m.h.remove(m)
	return m.Mapping.Close()
}
