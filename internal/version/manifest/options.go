package manifest

import (
	"cmp"
	"path/filepath"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/vfs"
)

// Options says where a store is and how its log is kept.
type Options struct {
	FS        vfs.FS
	Dir       string
	ValueDir  string // "" = Dir
	ReadOnly  bool   // write nothing at all
	UpTo      bool   // a damaged edit ends the log, else it is an error
	Keys      Keys   // nil for a plain store
	FileBytes int64  // size from which a snapshot begins a new manifest; 0 = 4 MB
}

// Resolve cleans the names of the directories. If both mean one directory, however they are
// written, ValueDir becomes Dir: from then on they can be compared. Call it again once
// directories were made or opened, with their FS: until then a name may not lead anywhere.
func (o *Options) Resolve() {
	o.Dir = filepath.Clean(o.Dir)
	o.ValueDir = filepath.Clean(cmp.Or(o.ValueDir, o.Dir))
	if vfs.Same(o.FS, o.Dir, o.ValueDir) {
		o.ValueDir = o.Dir
	}
}

func (o *Options) dirs() []string {
	if o.hasValueDir() {
		return []string{o.Dir, o.ValueDir}
	}
	return []string{o.Dir}
}

// Recovery says what Open found and repaired.
type Recovery struct {
	CutBytes    int64 // of the manifest's torn tail
	SuperMended bool  // a slot of SUPER was damaged or behind, and was written again

	Damage    *errs.Corruption // with Options.UpTo: the damage at which the edits end; nil: there is none
	LostEdits int              // whole frames behind Damage; CutBytes counts their bytes, too
}

// hasValueDir reports whether values lie in a directory of their own.
func (o *Options) hasValueDir() bool { return o.ValueDir != "" && o.ValueDir != o.Dir }
