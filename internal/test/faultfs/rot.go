package faultfs

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/brockdb/brock/vfs"
)

// Damage changes the bytes p that were read at off.
type Damage func(off int64, p []byte)

type rot struct {
	part   string
	damage Damage
}

// Rot damages all reads of files whose base name contains part: by ReadAt, and by
// mappings made from now on. The stored bytes stay as they are.
func (f *faults) Rot(part string, d Damage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rot = append(f.rot, rot{part, d})
}

func (f *faults) rotOf(name string) (all []Damage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rot {
		if strings.Contains(filepath.Base(name), r.part) {
			all = append(all, r.damage)
		}
	}
	return all
}

// Flip inverts the bits of mask in the byte at an offset.
func Flip(at int64, mask byte) Damage {
	return func(off int64, p []byte) {
		if i := at - off; i >= 0 && i < int64(len(p)) {
			p[i] ^= mask
		}
	}
}

// Replace makes reads of a range return data: zeros, an older content (a stale
// block), or the bytes of another place (a misdirected write).
func Replace(at int64, data []byte) Damage {
	return func(off int64, p []byte) {
		from := max(at, off)
		if to := min(at+int64(len(data)), off+int64(len(p))); from < to {
			copy(p[from-off:to-off], data[from-at:])
		}
	}
}

// rotten makes a damaged copy of a mapping.
func (f *file) rotten(m vfs.Mapping, rot []Damage) (vfs.Mapping, error) {
	size, err := f.File.Size()
	if err == nil && size < int64(len(m.Data())) {
		err = errors.ErrUnsupported // bytes beyond the end can't be copied
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	c := &copied{append([]byte(nil), m.Data()...)}
	for _, damage := range rot {
		damage(0, c.data)
	}
	return c, m.Close()
}

type copied struct{ data []byte }

func (c *copied) Data() []byte { return c.data }

func (c *copied) Close() error { c.data = nil; return nil }
