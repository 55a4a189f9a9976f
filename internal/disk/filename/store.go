package filename

import (
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
