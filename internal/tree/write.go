package tree

import (
	"fmt"

	"github.com/brockdb/brock/internal/emptied"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/hash"
	"github.com/brockdb/brock/internal/manifest"
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
	if older := active.Replaced.Load() + active.Outdated.Load(); len(v.Tables) == 1 && uint64(older) >= t.space.measured.Load().SealAfter() {
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
		t.measure(next)
	})
	t.journalBytes = 0
	if t.emptied.Behind() {
		t.work.search.Kick()
	}
	t.kick()
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
	t.work.idle.Touch()
	t.spend(len(payload))
	t.journalBytes += int64(len(payload))
	t.stats.journalBytes.Add(int64(len(payload)))
	t.sample(payload)
	return t.add(t.views.Current().Active(), payload, at)
}

// add decodes records and adds them to a memtable.
func (t *Tree) add(to *view.Table, payload []byte, at entry.Position) error {
	var e entry.Entry
	bytes, expires, count := int64(0), uint64(0), emptied.Count{}
	for offset := uint64(at.Offset); len(payload) > 0; {
		r, err := entry.DecodeRecord(payload)
		if err != nil {
			return fmt.Errorf("segment %d at %d: %w", at.Segment, offset, err)
		}
		if r.Kind == entry.RangeDelete {
			if err := to.DeleteRange(r.Key, r.Value, r.Version); err != nil {
				return err
			}
			bytes += int64(len(r.Key) + len(r.Value))
			payload = payload[r.Size:]
			offset += uint64(r.Size)
			continue
		}
		if !r.Kind.Known() {
			return fmt.Errorf("segment %d at %d: %w: record of kind %d", at.Segment, offset, errs.ErrFormat, r.Kind)
		}
		if count.Entries++; r.Kind == entry.Delete {
			count.Deletes++
		}
		e = entry.Entry{Key: r.Key, Version: r.Version, Expires: r.Expires, Kind: r.Kind, Meta: r.Meta}
		// A shorter record would share its granule with others, and could not be
		// told dead by it.
		if r.Own && r.Size >= manifest.Granule {
			e.Separated = true
			to.Separated.Add(1)
			to.SeparatedBytes.Add(int64(len(r.Value)))
			e.Handle = entry.Handle{Segment: at.Segment, Offset: offset, Length: uint64(len(r.Value))}
			e.Raw = r.Raw
		} else if e.Value = r.Value; r.Raw != 0 {
			return errs.NewCorruption(filename.Of(filename.Journal, at.Segment), int64(offset), "compressed value in a record of %d bytes", r.Size)
		}
		if e.Expires != 0 && (expires == 0 || e.Expires < expires) {
			expires = e.Expires
		}
		bytes += int64(len(e.Key) + len(e.Value))
		if err := to.Add(hash.Sum(t.cfg.Seed, r.Key), &e); err != nil {
			return err
		}
		payload = payload[r.Size:]
		offset += uint64(r.Size)
	}
	to.Last = max(to.Last, at.Segment)
	to.InlineBytes.Add(bytes)
	t.emptied.Added(count)
	if expires != 0 && to.Expires(expires) {
		t.awaitTable(to)
	}
	return nil
}

// follow opens the journal segment that is being written, so that readers can
// follow handles into it.
func (t *Tree) follow(num entry.FileNum) error {
	r, err := t.journal.OpenReader(num)
	if err != nil {
		return err
	}
	f := t.valueFile(r, filename.Journal, num)
	t.views.Install(func(next *view.View) {
		next.Segments = next.Segments.With(f)
		t.measure(next)
	})
	t.writing = num
	return nil
}

// Publish makes everything up to v visible.
func (t *Tree) Publish(v entry.Version) {
	t.views.Publish(v)
	if t.emptied.Published() {
		t.work.search.Kick()
	}
}

// Visible is the newest published version.
func (t *Tree) Visible() entry.Version { return t.views.Visible() }
