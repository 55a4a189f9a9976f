package manifest

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/vfs"
)

// The last frame of a manifest passes for a torn tail when it is damaged, and so do
// several that lie in one damaged page: nothing behind them says that they were
// durable (docs/format.md, "Torn tails"). For most edits this loses nothing in silence:
// the journal still has what a flush has written, and files that a lost edit had
// removed are missed. For others SUPER records that they are durable, at the price of
// one write and sync of 4 KB.

// provedByNothing reports whether e does what nothing but its frame tells of: it
// commits a transaction larger than its memory, or makes, changes or drops a keyspace.
func provedByNothing(e *layout.Edit) bool {
	for i := range e.AddRuns {
		if e.AddRuns[i].Stamp != 0 {
			return true
		}
	}
	return len(e.SetKeyspaces) > 0 || len(e.DropKeyspaces) > 0
}

// proveLocked records in SUPER that the last frame is durable. The edit is true
// already. So a write that was refused is tried again with the next edit and by Close;
// one that failed stops the log.
func (l *Log) proveLocked() error {
	l.unproved = l.super.Durable != l.end.Next-1
	if !l.unproved || l.slots > 0 { // before the next edit both slots are written
		return nil
	}
	f, err := l.o.FS.OpenReadWrite(filepath.Join(l.o.Dir, filename.Of(filename.Super, 0)))
	if err != nil {
		return nil // nothing was written
	}
	before := l.super.Durable
	l.super.Durable = l.end.Next - 1
	err = errors.Join(l.super.writeSlot(f), f.Close())
	switch {
	case errors.As(err, new(unwritten)):
		l.super.Durable = before
		return nil
	case err != nil:
		return l.stopLocked(fmt.Errorf("record that an edit is durable: %w", vfs.NoSpace(err)))
	}
	l.unproved = false
	return nil
}
