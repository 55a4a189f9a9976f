package engine

import (
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/view"
)

// writer adds committed records to the active memtable. Only the commit leader uses it: it
// calls Prepare, Apply and Publish in this order, once for each group.
type writer struct {
	*state
	sampler  *sampler
	searcher *searcher

	segment entry.FileNum // journal segment that Apply last followed
}

// newTable makes a memtable that is full at some bytes in memory.
func newTable(cfg *Config, bytes int64) *view.Table {
	t := view.NewTable(cfg.Seed, int(bytes), cfg.JournalBytes)
	t.Begun = cfg.Now()
	return t
}

// Prepare makes room for payloads: if the active memtable is full, it seals that with its journal
// segments, and begins a new one. It also seals a memtable that hides much garbage, unless another
// already waits for its flush. All memory that Apply needs is allocated here: once the group is in
// the journal, it is too late to refuse it. After a failure of the manifest Prepare returns an
// error, since flushes could not be recorded any more.
func (w *writer) Prepare(payloads [][]byte, records, ranges int) error {
	if err := w.log.Err(); err != nil {
		return err
	}
	v := w.views.Current()
	if active := v.Active(); !active.Empty() {
		if active.IsFull(view.NeededBytes(payloads, records)) || len(v.Tables) == 1 && w.hidesMuch(active) {
			if err := w.sealTable(); err != nil {
				return err
			}
		}
	}
	return w.views.Current().Active().ReserveRecords(payloads, records, ranges)
}

// hidesMuch reports whether a memtable has replaced so much that it is sealed, so that this becomes
// known. What is retained counts once the memtable is older than that lasts: the times of versions
// are known as of the edits that flushes make.
func (w *writer) hidesMuch(m *view.Table) bool {
	older, retained, age := m.Replaced.Bytes()
	outdated, more, younger := m.Outdated.Bytes()
	older += outdated
	if retained += more; retained > 0 {
		if age == 0 || younger > 0 && younger < age {
			age = younger
		}
		if w.cfg.Now().Sub(m.Begun) >= age {
			older += retained
		}
	}
	return uint64(max(older, m.Ranged.Load())) >= w.budget.measured.Load().SealAfter()
}

// sealTable ends the active memtable and its journal segments and begins new ones.
// Only the leader, or a function that runs in its place, may call it.
func (w *writer) sealTable() error {
	// A journal segment belongs to one memtable, so that the flush of it makes the segment
	// unneeded for replay.
	end, err := w.unflushed.journal.Rotate()
	if err != nil {
		return err
	}
	bytes := policy.MemtableBytes(int64(w.cfg.MemtableBytes), w.pinnedBytes(), w.cfg.Memory)
	w.views.Install(func(next *view.View) {
		// Set while the View is made: a flush that finds the memtable sealed needs its end.
		next.Active().End = end
		next.Tables = append([]*view.Table{newTable(w.cfg, bytes)}, next.Tables...)
		w.budget.measureView(next)
	})
	w.tasks.kickAll()
	return nil
}

// pinnedBytes returns the bytes of memtables that only old Views hold.
func (w *writer) pinnedBytes() int64 {
	// Views count all memtables that somebody holds. Those of the current View are no burden of old
	// readers.
	_, bytes := w.views.CountMemtables()
	for _, t := range w.views.Current().Tables {
		bytes -= t.Bytes()
	}
	return bytes
}

// Apply adds the records of the transaction with version v, which begin at this place
// of the journal, to the memtable, and returns where the next one begins. Readers see them
// once they are published.
func (w *writer) Apply(payload []byte, at entry.Position, v entry.Version) (next entry.Position, err error) {
	// Open the segment before its entries are visible. From then on readers look for values in it.
	if at.Segment != w.segment {
		if err := w.followSegment(at.Segment); err != nil {
			return at, err
		}
	}
	w.tasks.idle.Touch()
	w.disk.countWritten(len(payload))
	w.count.journalBytes.Add(int64(len(payload)))
	to := w.views.Current().Active()
	a := to.BeginTransaction(payload, at, v)
	earlier, err := w.addRecords(&a)
	// Only for an entry that expires before all others: for most records the alarm costs nothing.
	if earlier {
		w.setExpiryAlarmAt(policy.MemtableExpiryDue(to.LeastExpiry.Load(), false))
	}
	at.Offset = a.At()
	return at, err
}

// addRecords adds records to a memtable. On the way it estimates what they replace. It reports
// whether an entry expires before all others.
func (w *writer) addRecords(a *view.Addition) (earlier bool, err error) {
	every := w.sampler.sampleEvery()
	var r entry.Record
	for a.More() {
		if err := a.Next(&r); err != nil {
			return false, err
		}
		// Sample before the record is added: the sample looks for what the record replaces.
		w.sampler.sampleRecord(&r, every)
		if err := a.AddRecord(&r); err != nil {
			return false, err
		}
		if r.Kind == entry.Delete {
			w.searcher.countDelete(r.Key)
		}
	}
	return a.AddCounts(), nil
}

// followSegment opens the journal segment that is being written, so that readers can read values in
// it.
func (w *writer) followSegment(num entry.FileNum) error {
	r, err := w.unflushed.journal.OpenReader(num)
	if err != nil {
		return err
	}
	f := w.files.ShareSegment(r, num)
	w.views.Install(func(next *view.View) {
		next.Segments = next.Segments.With(f)
		w.budget.measureView(next)
	})
	w.segment = num
	return nil
}

// Publish makes everything up to v visible.
func (w *writer) Publish(v entry.Version) {
	w.views.Publish(v)
	// After Publish: a search must see the deletes that it seeks past.
	w.searcher.publishDeletes()
}

// sealAny seals the active memtable unless it is empty. It runs in the place
// of a commit leader.
func (w *writer) sealAny() error {
	if w.views.Closed() {
		return errs.ErrClosed
	}
	if w.views.Current().Active().Empty() {
		return nil
	}
	return w.sealTable()
}

// sealIdle seals the active memtable of an idle store if that is worth it: the memtable has
// some size or a range delete (which frees nothing before it is in a run), or flushing it may
// make much garbage known: values in its own journal, values that its entries delete or
// replace, and entries of dropped keyspaces.
func (w *writer) sealIdle() error {
	v := w.views.Current()
	active := v.Active()
	var values, entries uint64
	for _, r := range v.Layout.Runs() {
		values, entries = values+r.SeparatedBytes, entries+r.Entries
	}
	// Each entry may delete or replace a value below. Nobody knows their sizes before the flush, so
	// each counts as a value of average size.
	hidden := uint64(active.SeparatedBytes.Load()) + uint64(active.Len())*(values/max(entries, 1))
	small := active.RangeDeletes() == nil && active.Bytes() < int64(w.cfg.MemtableBytes)/policy.IdleSealFraction
	// On a full disk little is worth it, too.
	if small && hidden+w.views.DroppedFrom(active) < policy.IdleHiddenBytes && !w.disk.isRefusing() {
		return nil
	}
	return w.sealAny()
}
