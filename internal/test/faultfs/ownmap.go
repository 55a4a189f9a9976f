package faultfs

import (
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/brockdb/brock/vfs"
)

// ownMap is a mapping that is memory of its own.
type ownMap struct {
	fs   *faults
	name string
	data []byte
}

// ownMap maps the file in memory of its own, if the file system below maps it.
func (f *file) ownMap(size int64) (vfs.Mapping, error) {
	below, err := f.File.Map(size)
	if err != nil {
		return nil, err
	}
	m := &ownMap{f.fs, f.Name(), make([]byte, size)}
	rot := f.fs.rotOf(f.Name())
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if _, err := f.File.ReadAt(m.data, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(err, below.Close())
	}
	for _, damage := range rot {
		damage(0, m.data)
	}
	f.fs.maps[m] = struct{}{}
	return m, below.Close()
}

func (m *ownMap) Data() []byte { return m.data }

func (m *ownMap) Close() error {
	m.fs.mu.Lock()
	defer m.fs.mu.Unlock()
	delete(m.fs.maps, m)
	return nil
}

// updateMaps writes p, which was written at off, to the mappings of a file.
func (f *faults) updateMaps(name string, p []byte, off int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for m := range f.maps {
		if m.name == name && off < int64(len(m.data)) {
			copy(m.data[off:], p)
		}
	}
}

// RotMaps damages the present mappings of files whose base name contains part. Nobody
// may read them meanwhile. It needs Options.OwnMaps.
func (f *faults) RotMaps(part string, d Damage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for m := range f.maps {
		if strings.Contains(filepath.Base(m.name), part) {
			d(0, m.data)
		}
	}
}

// Invert inverts every bit.
func Invert(_ int64, p []byte) {
	for i := range p {
		p[i] ^= 0xff
	}
}
