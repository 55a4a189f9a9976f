package view

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/memtable"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/journal"
)

// Table is a memtable and the journal segments that hold the same records. The commit leader alone
// writes to it; its counters can be read at any time.
type Table struct {
	*memtable.Table
	shared
	// What makes it full:
	most        int   // bytes in memory
	mostJournal int64 // bytes of its records in the journal

	Last entry.FileNum // newest of its journal segments; 0: none yet
	End  journal.Point // where its records end in the journal; set when it is sealed

	JournalBytes int64 // of its records in the journal; only the leader uses it

	Begun time.Time // when it became the active one

	Separated      atomic.Int64  // entries whose values stayed in the journal
	SeparatedBytes atomic.Int64  // bytes of these values
	InlineBytes    atomic.Int64  // bytes of all keys and of the inline values
	LeastExpiry    atomic.Uint64 // earliest expiry, in Unix milliseconds; 0: nothing expires

	Outdated Replaced     // by samples: what its entries have replaced in this table
	Replaced Replaced     // by samples: what they have replaced in older tables and runs
	Ranged   atomic.Int64 // estimate: bytes of its separated values that its range deletes hide
	Replayed bool         // some entries came from a replay of the journal: no sample has them
}

// NewTable returns an empty table, which is full with so many bytes in memory or in the journal. Its
// memory is given back when no View holds it.
func NewTable(seed uint64, bytes int, journalBytes int64) *Table {
	t := &Table{Table: memtable.New(memtable.Options{Seed: seed, Limit: bytes}), most: bytes, mostJournal: journalBytes}
	t.release = func(bool) { t.Table.Release() }
	return t
}

// lacksNewer reports whether the table has nothing newer than since; 0 asks for all versions.
func (t *Table) lacksNewer(since entry.Version) bool { return since > 0 && t.MaxVersion() <= since }

// IsFull reports whether the table is to be sealed before n more bytes, as Needed returns.
func (t *Table) IsFull(n int64) bool {
	return t.Bytes() >= int64(t.most) || t.JournalBytes >= t.mostJournal || !t.Fits(n)
}

// NeededBytes returns how many bytes so many records in payloads need in memory, at most.
func NeededBytes(payloads [][]byte, records int) int64 {
	n := int64(memtable.Overhead * records)
	for _, p := range payloads {
		n += int64(len(p))
	}
	return n
}

// Replaced is an account of what entries have replaced, by samples. One goroutine writes it; any
// may read it. The zero value is empty.
type Replaced struct {
	atOnce   atomic.Int64 // bytes of separated values that nobody needs since they were replaced
	retained atomic.Int64 // bytes of those that are retained for a while
	age      atomic.Int64 // the shortest such while, in nanoseconds; 0: none is retained

	mu      sync.Mutex     // guards:
	account layout.Account // what was replaced, in steps of versions
}

// Add counts s, which is retained for some time; 0 = it is not.
func (r *Replaced) Add(s layout.Superseded, age time.Duration) {
	if age <= 0 {
		r.atOnce.Add(int64(s.Separated))
	} else {
		r.retained.Add(int64(s.Separated))
		// No compare-and-swap: one goroutine writes.
		if least := r.age.Load(); least == 0 || int64(age) < least {
			r.age.Store(int64(age))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.account.Add(s)
}

// Bytes returns the bytes of separated values that nobody needs since they were replaced, and of
// those that are retained, for age or longer.
func (r *Replaced) Bytes() (dead, retained int64, age time.Duration) {
	return r.atOnce.Load(), r.retained.Load(), time.Duration(r.age.Load())
}

// List returns what was counted.
func (r *Replaced) List() []layout.Superseded {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.account.List()
}
