package salvage

import (
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/keyring"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/vfs"
)

// Source is the damaged store. Nothing of it is changed.
type Source struct {
	FS       vfs.FS
	Dir      string
	ValueDir string           // may be Dir; "" = Dir
	Keys     keyring.Provider // of an encrypted store; nil: it is plain
}

// Target is the store to make.
type Target struct {
	FS           vfs.FS
	Dir          string                 // directory, which must not exist
	UUID         [16]byte               // of the new store
	Seed         uint64                 // of the key hash
	SegmentBytes int64                  // length in bytes at which a value segment ends
	RunFileBytes int64                  // length in bytes at which a file of a run ends
	Memory       int64                  // for sorting, in bytes
	Now          int64                  // Unix milliseconds
	Keys         keyring.Provider       // nil: the store is plain
	Defaults     layout.KeyspaceOptions // of keyspaces whose own options are lost
}

// maker is the target while it is made.
type maker struct {
	Target
	ring *crypt.Ring   // nil: the store is plain
	last entry.FileNum // greatest number of a file so far
}

// makeKeys makes the keyring of an encrypted store.
func (m *maker) makeKeys() error {
	if m.Keys == nil {
		return nil
	}
	k, err := keyring.Create(keyring.Options{FS: m.FS, Dir: m.Dir, UUID: m.UUID, Keys: m.Keys, Created: m.Now})
	if err != nil {
		return err
	}
	m.ring = k.Ring()
	return nil
}

// nextNum returns the number of the next file.
func (m *maker) nextNum() entry.FileNum {
	m.last++
	return m.last
}
