package salvage

import (
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/keyring"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
)

// Target is the store to make, in a directory that must not exist.
type Target struct {
	filename.Store                        // without ValueDir and Ring
	SegmentBytes   int64                  // length in bytes at which a value segment ends
	RunFileBytes   int64                  // length in bytes at which a file of a run ends
	Memory         int64                  // for sorting, in bytes
	Now            int64                  // Unix milliseconds
	Keys           keyring.Provider       // nil: the store is plain
	Defaults       layout.KeyspaceOptions // of keyspaces whose own options are lost
}

// maker is the target while it is made.
type maker struct {
	Target
	open *view.Opener // numbers and opens its files
}

// newMaker makes the keyring of an encrypted store. The directory is there.
func newMaker(t Target) (*maker, error) {
	if t.Keys != nil {
		k, err := keyring.Create(keyring.Options{FS: t.FS, Dir: t.Dir, UUID: t.UUID, Keys: t.Keys, Created: t.Now})
		if err != nil {
			return nil, err
		}
		t.Ring = k.Ring()
	}
	t.ValueDir, t.NoMap = t.Dir, true
	return &maker{t, view.NewOpener(view.OpenerConfig{Store: t.Store, RunFileBytes: t.RunFileBytes})}, nil
}
