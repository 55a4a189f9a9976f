package raftstore

import (
	"errors"
	"fmt"

	"github.com/brockdb/brock"
)

// The errors of the package; test for them with errors.Is. Beside them methods return those of
// package brock, raft.ErrLogNotFound and a *RecordError.
var (
	// ErrKeyNotFound is returned by Get and GetUint64 for a key that was never set, if
	// Options.MissingKeyError is set. Its text is the one that raft looks for.
	ErrKeyNotFound = errors.New("not found")

	// ErrGap is returned by StoreLogs for entries that don't follow the last one of the log, or
	// each other. errors.Is reports brock.ErrInvalid too.
	ErrGap = fmt.Errorf("raftstore: entries of a log must follow each other: %w", brock.ErrInvalid)

	// ErrMiddle is returned by DeleteRange for a range that is neither the head nor the tail of
	// the log. errors.Is reports brock.ErrInvalid too.
	ErrMiddle = fmt.Errorf("raftstore: only the head or the tail of a log can be deleted: %w",
		brock.ErrInvalid)

	// ErrGroupInUse is returned by New for a group of which a Store is open. errors.Is reports
	// brock.ErrLocked too.
	ErrGroupInUse = fmt.Errorf("raftstore: the group is open already: %w", brock.ErrLocked)

	// ErrNotUint64 is returned by GetUint64 for a value that SetUint64 has not set. errors.Is
	// reports brock.ErrInvalid too.
	ErrNotUint64 = fmt.Errorf("raftstore: the value is no uint64: %w", brock.ErrInvalid)
)

var (
	errNilLog = fmt.Errorf("raftstore: nil log entry: %w", brock.ErrInvalid)
	errNilDB  = fmt.Errorf("raftstore: nil DB: %w", brock.ErrInvalid)
	errZero   = fmt.Errorf("raftstore: the indexes of a log begin at 1: %w", brock.ErrInvalid)
)

// RecordError reports that a part of a group can't be read, though its checksum is right: another
// program has written it, or a newer release, or an entry of the log is missing. errors.Is reports
// brock.ErrCorrupt, or brock.ErrFormat if a newer release has written it.
type RecordError struct {
	Group  string // Options.Group
	Index  uint64 // of the entry; 0 = the header of the group
	Reason string // what is wrong
	Newer  bool   // a newer release has written it
}

// Error names the group, the entry and what is wrong. It holds none of its data.
func (e *RecordError) Error() string {
	if e.Index == 0 {
		return fmt.Sprintf("raftstore: header of group %q: %s", e.Group, e.Reason)
	}
	return fmt.Sprintf("raftstore: group %q: log entry %d: %s", e.Group, e.Index, e.Reason)
}

// Is reports whether target is brock.ErrFormat, for what a newer release has written, or else
// brock.ErrCorrupt.
func (e *RecordError) Is(target error) bool {
	if e.Newer {
		return target == brock.ErrFormat
	}
	return target == brock.ErrCorrupt
}
