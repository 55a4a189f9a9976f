package view

import (
	"bytes"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// unrecorded is the most file numbers that a store gives out between two edits, each of
// which records the next number. It is far more than any store needs.
const unrecorded = 1 << 32

// LastPossible returns the greatest number that a file of the store can have. A file with a
// greater number is not the store's own, even if its name looks so. Numbers must not go on from
// it, or the store could run out of numbers.
func LastPossible(l *layout.Layout) entry.FileNum { return l.NextFile() + unrecorded }

// CountFrom makes Next go on after the greatest number of a file that exists or that the layout
// has given out. Manifests and keyrings don't count: they have numbers of their own.
func (f *Opener) CountFrom(names []filename.Name, l *layout.Layout) {
	last := l.NextFile() - 1
	for _, n := range names {
		if n.Kind != filename.Manifest && n.Kind != filename.Keyring {
			last = max(last, n.Number)
		}
	}
	f.numbers.Store(uint64(last))
}

// RemoveLeftovers removes the files that this store has written, whole or in part, and that
// neither the manifest nor the journal needs. It returns how many. Other files with such names
// stay. If a file can't be removed now, the next Open tries again.
func (f *Opener) RemoveLeftovers(layout *layout.Layout, found *Recovered) (removed int) {
	needed := make(map[filename.Name]bool)
	for _, f := range layout.AllFiles() {
		needed[f.Name] = true
	}
	for _, s := range found.Segments {
		needed[filename.New(filename.Journal, s.File)] = true
	}
	for _, name := range found.names {
		switch name.Kind {
		case filename.Journal, filename.Value, filename.Run, filename.Forwarding:
		default:
			continue
		}
		// The directories may hold files of other programs or stores.
		if needed[name] || !f.isOurs(name) {
			continue
		}
		err := f.cfg.FS.Remove(f.cfg.Path(name))
		f.countFailure(err)
		if err == nil {
			removed++
		}
	}
	return removed
}

// isOurs reports whether a file was written by this store, or never got any
// content: what a crash leaves of a file that was just created.
func (f *Opener) isOurs(name filename.Name) bool {
	head, err := pageio.ReadHead(f.cfg.FS, f.cfg.Path(name), segment.HeaderSize)
	return err == nil && headerIsOurs(head, f.cfg.UUID)
}

// headerIsOurs reports whether a file that begins with head belongs to the store
// with this uuid, or has no header yet: every file begins with a page that
// names its store.
func headerIsOurs(head []byte, uuid [16]byte) bool {
	return bytes.Count(head, []byte{0}) == len(head) || bytes.Contains(head, uuid[:])
}
