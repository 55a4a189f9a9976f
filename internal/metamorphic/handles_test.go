package metamorphic

import (
	"fmt"
	"sync"

	"github.com/brockdb/brock/vfs"
)

// handles is a Mem that knows which files and mappings are open.
type handles struct {
	*vfs.Mem
	mu   sync.Mutex
	open map[any]string
}

func countHandles(m *vfs.Mem) *handles { return &handles{Mem: m, open: map[any]string{}} }

// leaks names what is open; "" if nothing is.
func (h *handles) leaks() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := ""
	for _, name := range h.open {
		s += name + " "
	}
	return s
}

func (h *handles) add(id any, name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open[id] = name
}

func (h *handles) remove(id any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.open, id)
}

// DropUnsynced of a directory does nothing: a file system that can't write its
// directories stops, so that no later sync lies about them.
func (h *handles) DropUnsynced(string) {}

func (h *handles) wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	w := &handle{File: f, h: h}
	h.add(w, f.Name())
	return w, nil
}

func (h *handles) Create(name string) (vfs.File, error) { return h.wrap(h.Mem.Create(name)) }
func (h *handles) Open(name string) (vfs.File, error)   { return h.wrap(h.Mem.Open(name)) }
func (h *handles) OpenReadWrite(name string) (vfs.File, error) {
	return h.wrap(h.Mem.OpenReadWrite(name))
}

type handle struct {
	vfs.File
	h *handles
}

func (f *handle) DropUnsynced() { f.File.(interface{ DropUnsynced() }).DropUnsynced() }

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
	h *handles
}

func (m *mapped) Close() error {
	m.h.remove(m)
	return m.Mapping.Close()
}
