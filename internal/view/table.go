package view

import (
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/memtable"
	"github.com/brockdb/brock/internal/vlog/journal"
)

// Table is a memtable and the journal segments that hold the same records. The
// commit leader alone writes to it; its counters can be read at any time.
type Table struct {
	*memtable.Table
	shared
	Last entry.FileNum // newest of its journal segments; 0 while it has none
	End  journal.Point // where they end; set when the table is sealed

	Begun time.Time // when it became the active one

	Separated      atomic.Int64  // entries whose values stayed in the journal
	SeparatedBytes atomic.Int64  // bytes of these values
	InlineBytes    atomic.Int64  // bytes of all keys and of the inline values
	LeastExpiry    atomic.Uint64 // Unix milliseconds; 0 = nothing expires

	Outdated Replaced     // by samples: what its entries have replaced in this table
	Replaced Replaced     // and in older ones and runs
	Ranged   atomic.Int64 // bytes of its separated values that its range tombstones hide: a guess
	Replayed bool         // entries were replayed from the journal, which are not in the samples
}

// NewTable returns an empty table. Its memory is given back when no View holds it.
func NewTable(o memtable.Options) *Table {
	t := &Table{Table: memtable.New(o)}
	t.release = func(bool) { t.Table.Release() }
	return t
}

// Expires notes that an entry of the table expires at this time, in Unix milliseconds. It
// reports whether that is earlier than all others. Only those that add entries, the commit
// leader and replay, call it.
func (t *Table) Expires(at uint64) (earlier bool) {
	least := t.LeastExpiry.Load()
	if least != 0 && least <= at {
		return false
	}
	t.LeastExpiry.Store(at)
	return true
}
