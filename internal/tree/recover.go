package tree

import (
	"errors"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/files"
	"github.com/brockdb/brock/internal/frame"
	"github.com/brockdb/brock/internal/journal"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/manifest"
	"github.com/brockdb/brock/internal/view"
)

// Lost is what a store that was opened up to damage had behind it, as far as it is known.
// The root hands it out as its own Loss, by a conversion.
type Lost struct {
	Damage      *errs.Corruption
	Version     uint64 // the newest that is there
	LastVersion uint64
	Commits     int64
	Edits       int64
	Bytes       int64
	Aside       []string
}

// settling is what a store has to do that was opened up to damage, to be written to. All
// of it goes to a manifest that is not the store's yet: nothing that the store of before
// needs is removed until it is.
type settling struct {
	views *view.Set
	files *files.Opener
	log   *manifest.Log
	lost  *Lost
	last  journal.SegmentInfo // of the journal; zero: it has none
	hold  *view.Pin           // on all that was there
}

// fork begins the new manifest and keeps aside what is not needed.
func (s *settling) fork(names []filename.Name, result *journal.ReplayResult) error {
	begin, err := s.log.Layout().WithoutJournal()
	if err != nil {
		return err
	}
	if s.lost.Aside, err = s.files.SetAside(names, begin, *result); err != nil {
		return err
	}
	if n := len(result.Segments); n > 0 {
		s.last = result.Segments[n-1]
	}
	return s.log.Fork(begin)
}

// run makes the store one of its own, with what flushes and records edits.
func (s *settling) run(flush func() error, record func(func(*layout.Layout) (*layout.Edit, error)) error) error {
	defer s.hold.Release()
	if err := flush(); err != nil {
		return err
	}
	// Without entries there was nothing to flush: the segments would be looked at again.
	if s.last.Num > s.views.Current().Layout.FlushedTo() {
		err := record(func(*layout.Layout) (*layout.Edit, error) {
			return &layout.Edit{FlushedTo: s.last.Num, JournalEnds: []layout.JournalEnd{files.EndOf(s.last)}}, nil
		})
		if err != nil {
			return err
		}
	}
	return s.log.Adopt(func(path string) error {
		to, err := s.files.CopyAside(path)
		s.lost.Aside = append(s.lost.Aside, to)
		return err
	})
}

// upTo watches over a replay behind edits of the manifest that are lost: what they have
// told must be missing in the journal too, or the journal ends.
type upTo struct {
	damaged  bool                        // edits are lost
	keyspace func(entry.KeyspaceID) bool // was it known before?
	last     entry.Version               // of the layout or of the frame before
}

func newUpTo(l *layout.Layout, damaged bool) *upTo {
	known := func(id entry.KeyspaceID) bool { return uint64(id) < l.NextKeyspace() }
	return &upTo{damaged, known, l.LastVersion()}
}

// check returns a *journal.Stop if the frame can't follow what was read so far.
func (u *upTo) check(segment entry.FileNum, h *frame.Header, payload []byte) error {
	if !u.damaged || h.Transactions == 0 {
		return nil
	}
	stop := func(format string, args ...any) error {
		return &journal.Stop{Damage: errs.NewCorruption(filename.Of(filename.Journal, segment), -1, format, args...)}
	}
	// A transaction larger than its memory is in no journal: a lost edit has committed it.
	if h.FirstVersion > u.last+1 {
		return stop("frame %d has version %d, and no version from %d on is known", h.Number, h.FirstVersion, u.last+1)
	}
	u.last = max(u.last, h.FirstVersion+entry.Version(h.Transactions)-1)
	var r entry.Record
	for records := h.Walk(payload, 0); records.More(); {
		if records.Next(&r) != nil {
			return nil // to add it fails in the same way
		}
		if id, ok := entry.KeyspaceOf(r.Key); ok && !u.keyspace(id) {
			return stop("frame %d writes to a keyspace that is not known", h.Number)
		}
	}
	return nil
}

// lostBehind sums up what Open has left behind damage; nil if there was none.
func lostBehind(m *manifest.Recovery, v *view.View, result *journal.ReplayResult) *Lost {
	damage := m.Damage
	l := &Lost{Edits: int64(m.LostEdits), Version: uint64(newest(v))}
	if damage != nil {
		l.Bytes = m.CutBytes
	}
	if j := result.Lost; j != nil {
		if damage == nil && !errors.As(j.Damage, &damage) {
			return nil
		}
		l.Commits, l.LastVersion = int64(j.Transactions), uint64(j.LastVersion)
		l.Bytes += result.CutBytes
	}
	if damage == nil {
		return nil
	}
	l.Damage = damage
	l.LastVersion = max(l.LastVersion, l.Version)
	return l
}

// newest is the greatest version of what a View has.
func newest(v *view.View) (last entry.Version) {
	for _, r := range v.Runs {
		last = max(last, r.MaxVersion())
	}
	for _, t := range v.Tables {
		last = max(last, t.MaxVersion())
	}
	return last
}

// greatestFloor is the greatest version below which history of a keyspace may be gone.
func greatestFloor(l *layout.Layout) entry.Version {
	floor := l.Floor()
	for _, k := range l.Keyspaces() {
		floor = max(floor, k.Floor())
	}
	return floor
}

// unreachable is the error of files that the state before d, if that is damage, needs: later
// work may have replaced and removed them.
func unreachable(d *errs.Corruption, err error) error {
	if d == nil || !errors.Is(err, errs.ErrCorrupt) {
		return err
	}
	return &errs.Corruption{File: d.File, Offset: d.Offset, Err: err,
		Reason: d.Reason + "; files of the state before it are gone or damaged, so the store can't be opened up to there, only salvaged"}
}
