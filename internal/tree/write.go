package tree

import (
	"fmt"

	"github.com/brockdb/brock/internal/emptied"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/hash"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/memtable"
	"github.com/brockdb/brock/internal/view"
)

// The commit leader's part: Prepare, Apply and Publish are called by one
// goroutine at a time, in this order, once a group.

// Prepare makes room for n bytes of records: a full memtable is sealed, with
// its journal segments, and a new one begun. Full is also one that hides much
// garbage, unless another already waits for its flush.
func (t *Tree) Prepare(n int) error {
	v := t.views.Current()
	active := v.Active()
	if active.Empty() {
		return nil
	}
	if older := active.Replaced.Load() + active.Outdated.Load(); len(v.Tables) == 1 && uint64(older) >= t.budget.measured.Load().SealAfter() {
		return t.seal()
	}
	if int(active.Bytes()) < t.cfg.MemtableBytes && t.journalBytes < t.cfg.JournalBytes && int(active.Bytes())+n < memtable.MaxBytes {
		return nil
	}
	return t.seal()
}

// seal ends the active memtable and its journal segments and begins new ones.
// Only the leader, or a function that runs in its place, may call it.
func (t *Tree) seal() error {
	end, err := t.journal.Rotate()
	if err != nil {
		return err
	}
	t.views.Install(func(next *view.View) {
		next.Active().End = end
		next.Tables = append([]*view.Table{t.newTable()}, next.Tables...)
		t.budget.measure(next)
	})
	t.journalBytes = 0
	if t.emptied.Behind() {
		t.tasks.search.Kick()
	}
	t.tasks.kick()
	return nil
}

// Apply adds the records of payload, which begins at this place of the
// journal, to the memtable. Readers see them once they are published.
func (t *Tree) Apply(payload []byte, at entry.Position) error {
	if at.Segment != t.writing {
		if err := t.follow(at.Segment); err != nil {
			return err
		}
	}
	t.tasks.idle.Touch()
	t.disk.spend(len(payload))
	t.journalBytes += int64(len(payload))
	t.count.journalBytes.Add(int64(len(payload)))
	return t.add(t.views.Current().Active(), payload, at, t.sampler.every())
}

// add adds the records of payload to a memtable. On the way it estimates what they
// replace, from one sample every so many bytes of records; 0 = no samples.
func (t *Tree) add(to *view.Table, payload []byte, at entry.Position, every int64) error {
	a := addition{to: to, at: at, seed: t.cfg.Seed}
	for len(payload) > 0 {
		r, err := entry.DecodeRecord(payload)
		if err != nil {
			return a.wrap(err)
		}
		// Before it is added, so that a sample finds what the record replaces.
		if every > 0 {
			t.sampler.sample(&r, every)
		}
		if err := a.record(&r); err != nil {
			return err
		}
		payload = payload[r.Size:]
		a.at.Offset += int64(r.Size)
	}
	a.finish()
	t.emptied.Added(a.count)
	if a.expires != 0 && to.Expires(a.expires) {
		t.expiry.awaitTable(to)
	}
	return nil
}

// addition is the records of one payload on their way into a memtable.
type addition struct {
	to      *view.Table
	at      entry.Position // of the next record
	seed    uint64         // of key hashes
	inline  int64          // bytes of keys and of values that go into the table
	expires uint64         // when the first entry does; 0 = none
	count   emptied.Count
}

// record adds one record.
func (a *addition) record(r *entry.Record) error {
	if r.Kind == entry.RangeDelete {
		a.inline += int64(len(r.Key) + len(r.Value))
		return a.to.DeleteRange(r.Key, r.Value, r.Version)
	}
	if !r.Kind.Known() {
		return a.wrap(fmt.Errorf("%w: record of kind %d", errs.ErrFormat, r.Kind))
	}
	if a.count.Entries++; r.Kind == entry.Delete {
		a.count.Deletes++
	}
	e := entry.Entry{Key: r.Key, Version: r.Version, Expires: r.Expires, Kind: r.Kind, Meta: r.Meta}
	// A shorter record would share its granule with others, and could not be
	// told dead by it.
	if r.Own && r.Size >= layout.Granule {
		e.Separated, e.Raw = true, r.Raw
		e.Handle = entry.Handle{Segment: a.at.Segment, Offset: uint64(a.at.Offset), Length: uint64(len(r.Value))}
		a.to.Separated.Add(1)
		a.to.SeparatedBytes.Add(int64(len(r.Value)))
	} else if e.Value = r.Value; r.Raw != 0 {
		return errs.NewCorruption(filename.Of(filename.Journal, a.at.Segment), a.at.Offset, "compressed value in a record of %d bytes", r.Size)
	}
	if e.Expires != 0 && (a.expires == 0 || e.Expires < a.expires) {
		a.expires = e.Expires
	}
	a.inline += int64(len(e.Key) + len(e.Value))
	return a.to.Add(hash.Sum(a.seed, r.Key), &e)
}

// finish brings the table's counters up to date.
func (a *addition) finish() {
	a.to.Last = max(a.to.Last, a.at.Segment)
	a.to.InlineBytes.Add(a.inline)
}

func (a *addition) wrap(err error) error {
	return fmt.Errorf("segment %d at %d: %w", a.at.Segment, a.at.Offset, err)
}

// follow opens the journal segment that is being written, so that readers can
// follow handles into it.
func (t *Tree) follow(num entry.FileNum) error {
	r, err := t.journal.OpenReader(num)
	if err != nil {
		return err
	}
	f := t.files.segment(r, filename.Journal, num)
	t.views.Install(func(next *view.View) {
		next.Segments = next.Segments.With(f)
		t.budget.measure(next)
	})
	t.writing = num
	return nil
}

// Publish makes everything up to v visible.
func (t *Tree) Publish(v entry.Version) {
	t.views.Publish(v)
	if t.emptied.Published() {
		t.tasks.search.Kick()
	}
}

// Visible is the newest published version.
func (t *Tree) Visible() entry.Version { return t.views.Visible() }
