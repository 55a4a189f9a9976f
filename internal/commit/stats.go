package commit

import (
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/entry"
)

// Stats counts what a pipeline has done since New.
type Stats struct {
	Groups       uint64        // appended; Transactions/Groups is how well committers share
	Transactions uint64        // published
	Records      uint64        // in them
	Bytes        uint64        // of their payloads
	Conflicts    uint64        // refused with errs.ErrConflict
	Syncs        uint64        // of the journal
	SyncTime     time.Duration // in them; 0 without Config.Now
	Visible      entry.Version // newest published
	Durable      entry.Version // newest known to be durable
}

// counters are written by the leader only and read by anyone.
type counters struct {
	groups, transactions, records, bytes, conflicts, syncs, syncNanos atomic.Uint64
}

// Stats reads the counters, each for itself: a group that is being finished may
// be in some of them and not yet in others.
func (p *Pipeline) Stats() Stats {
	c := &p.counts
	return Stats{
		Groups:       c.groups.Load(),
		Transactions: c.transactions.Load(),
		Records:      c.records.Load(),
		Bytes:        c.bytes.Load(),
		Conflicts:    c.conflicts.Load(),
		Syncs:        c.syncs.Load(),
		SyncTime:     time.Duration(c.syncNanos.Load()),
		Visible:      entry.Version(p.visible.Load()),
		Durable:      entry.Version(p.durable.Load()),
	}
}
