package view

import (
	"sync/atomic"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/journal"
	"github.com/brockdb/brock/internal/memtable"
)

// Table is a memtable and the journal segments that hold the same records. The
// commit leader alone writes to it; its counters can be read at any time.
type Table struct {
	*memtable.Table
	shared
	Last entry.FileNum // newest of its journal segments; 0 while it has none
	End  journal.Point // where they end, once the table is sealed

	Separated      atomic.Int64  // entries whose values stayed in the journal
	SeparatedBytes atomic.Int64  // of these values
	InlineBytes    atomic.Int64  // of the keys and the other values
	LeastExpiry    atomic.Uint64 // Unix milliseconds; 0 = nothing expires

	// Bytes of separated values that entries replace, estimated by a sample, and of
	// all that range tombstones hide:
	Replaced atomic.Int64 // in older memtables and runs
	Outdated atomic.Int64 // in this one
	Replayed bool         // it has entries that no sample was taken of

	ReplacedEntries atomic.Int64 // entries that they replace in older memtables and runs, of all values
}

// NewTable returns an empty table. Its memory is given back when no View holds it.
func NewTable(o memtable.Options) *Table {
	t := &Table{Table: memtable.New(o)}
	t.release = func(bool) { t.Table.Release() }
	return t
}

// Expires notes that an entry of the table expires at this time, and reports
// whether none did before. Only one who adds entries calls it.
func (t *Table) Expires(at uint64) (earlier bool) {
	least := t.LeastExpiry.Load()
	if least != 0 && least <= at {
		return false
	}
	t.LeastExpiry.Store(at)
	return true
}
