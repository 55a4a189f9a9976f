package faultfs

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/brockdb/brock/internal/base/errs"
)

// Kind is a set of kinds of file operations.
type Kind uint32

// The kinds of operations, and some sets of them.
const (
	Create Kind = 1 << iota
	Open
	OpenReadWrite
	Remove
	Rename
	MkdirAll
	List
	Stat
	SyncDir
	Lock
	Free
	Read
	Write // WriteAt and WriteVec
	Truncate
	Sync
	SyncData
	Writeback // StartWriteback
	ReadStart // StartRead
	Size
	Map
	Close
	OpenDir // OpenDirs, once for each directory
	Link
	Clone

	Any     Kind = 1<<iota - 1
	Syncs        = Sync | SyncData | SyncDir
	Opens        = Create | Open | OpenReadWrite
	Changes      = Create | Remove | Rename | Link | Clone | MkdirAll | Write | Truncate
)

// String names the kinds of the set.
func (k Kind) String() string {
	var names []string
	for i, name := range [...]string{
		"create", "open", "open-read-write", "remove", "rename", "mkdir", "list", "stat", "sync-dir", "lock", "free",
		"read", "write", "truncate", "sync", "sync-data", "writeback", "read-start", "size", "map", "close", "open-dir", "link", "clone",
	} {
		if k&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "|")
}

// Op is one operation that is about to be done.
type Op struct {
	N      int    // its number, from 1
	Kind   Kind   // exactly one
	Path   string // the file or directory; of a Rename, Link or Clone, the old name
	To     string // the new name, of a Rename, Link or Clone
	Offset int64  // of a Read, ReadStart, Write or Writeback; the size of a Truncate or Map
	Len    int64  // of a Read, ReadStart, Write or Writeback
}

// String returns one line for a log or a failure message.
func (o Op) String() string {
	s := fmt.Sprintf("%d %s %s", o.N, o.Kind, filepath.Base(o.Path))
	if o.To != "" {
		s += " to " + filepath.Base(o.To)
	}
	switch o.Kind {
	case Read, ReadStart, Write, Writeback:
		s += fmt.Sprintf(" at %d, %d bytes", o.Offset, o.Len)
	case Truncate, Map:
		s += fmt.Sprintf(" to %d", o.Offset)
	}
	return s
}

// Errors that faults may return. vfs.IsNoSpace recognises ErrNoSpace.
var (
	ErrIO      = errors.New("input/output error (injected)")
	ErrNoSpace = fmt.Errorf("no space left on device (injected): %w", errs.ErrNoSpace)
	ErrFiles   = errors.New("too many open files (injected)")
)

// Always, as Fault.Times, makes every operation fail from Fault.Nth on.
const Always = -1

// Fault says which operations fail, and how. The zero value fails the next
// operation, whatever it is, with ErrIO.
//
// An operation that fails is not done, with three exceptions. A Write may be cut
// short. A Close closes. After a failed sync the data counts as clean though it is
// not durable, as in common file systems: later syncs succeed, and a crash of a
// vfs.Mem loses the data.
type Fault struct {
	Kinds Kind   // 0 = Any
	Path  string // a part of the base name; "" = any
	Nth   int    // the first matching operation that fails, counted from 1 = the next; 0 = 1
	Times int    // how many matching operations fail from there on; 0 = 1
	Err   error  // what they return, within an *fs.PathError; nil = ErrIO
	Short bool   // a Write writes the first half before it fails
}

// planned is a Fault and the number of operations that have matched it.
type planned struct {
	Fault
	met int
}

// strikes counts the operation if it matches the fault, and reports whether it is to fail.
func (p *planned) strikes(o Op) bool {
	if p.Kinds != 0 && p.Kinds&o.Kind == 0 || !strings.Contains(filepath.Base(o.Path), p.Path) {
		return false
	}
	p.met++
	first := max(p.Nth, 1)
	return p.met >= first && (p.Times < 0 || p.met < first+max(p.Times, 1))
}
