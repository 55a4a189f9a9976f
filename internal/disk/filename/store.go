package filename

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/vfs"
)

// Store says where the files of a store are, and what all of them have in common.
type Store struct {
	FS       vfs.FS
	Dir      string
	ValueDir string // of journal, segments and forwarding tables; may be Dir
	UUID     [16]byte
	Ring     *crypt.Ring // nil: the store is plain
	Seed     uint64      // of the key hash
	NoMap    bool        // read files without mapping them
}

// Path returns the path of a file of the store.
func (s *Store) Path(name Name) string { return name.In(s.Dir, s.ValueDir) }

// Dirs are the directories of the store, each once.
func (s *Store) Dirs() []string { return slices.Compact([]string{s.Dir, s.ValueDir}) }

// List returns the names of the store's own files.
func (s *Store) List() (names []Name, err error) {
	for _, dir := range s.Dirs() {
		bases, err := s.FS.List(dir)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", dir, err)
		}
		for _, base := range bases {
			// A file in the other directory only looks like one of the store.
			if name, ok := Parse(base); ok && s.Path(name) == filepath.Join(dir, base) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}
