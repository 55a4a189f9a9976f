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

// Lost describes the data behind the damage of a store that was opened up to it, as far as that
// is known. The root converts it to its Loss, which explains the fields.
type Lost struct {
	Damage      *errs.Corruption
	Version     uint64
	LastVersion uint64
	Commits     int64
	Edits       int64
	Bytes       int64
	Aside       []string
}

// settling makes a store that was opened up to damage fit to be written. It records all edits
// in a new manifest. Until SUPER names that one, no file that the old state needs is removed.
type settling struct {
	views *view.Set
	files *files.Opener
	log   *manifest.Log
	lost  *Lost
	last  journal.SegmentInfo // of the journal; zero: it has none
	hold  *view.Pin           // on all that was there
}

// fork begins the new manifest, and gives other names to the files that the new state does not
// need.
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

// run flushes, so that the damaged journal is not needed any more, and makes the new manifest the
// store's.
func (s *settling) run(flush func() error, record func(func(*layout.Layout) (*layout.Edit, error)) error) error {
	defer s.hold.Release()
	if err := flush(); err != nil {
		return err
	}
	// If the journal had no entries, no flush has recorded that it is not needed.
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

// upTo ends a replay of the journal at the first frame that depends on an edit of the manifest
// that is lost.
type upTo struct {
	damaged  bool                        // edits are lost
	keyspace func(entry.KeyspaceID) bool // reports whether the layout knows the keyspace
	last     entry.Version               // of the layout or of the frame before
}

func newUpTo(l *layout.Layout, damaged bool) *upTo {
	known := func(id entry.KeyspaceID) bool { return uint64(id) < l.NextKeyspace() }
	return &upTo{damaged, known, l.LastVersion()}
}

// check returns a *journal.Stop if the frame depends on something that was not read.
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
			return nil // adding the records returns the same error
		}
		if id, ok := entry.KeyspaceOf(r.Key); ok && !u.keyspace(id) {
			return stop("frame %d writes to a keyspace that is not known", h.Number)
		}
	}
	return nil
}

// lostBehind describes what Open has left out because of damage; nil if there was none.
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

// newest returns the greatest version of all entries of a View.
func newest(v *view.View) (last entry.Version) {
	for _, r := range v.Runs {
		last = max(last, r.MaxVersion())
	}
	for _, t := range v.Tables {
		last = max(last, t.MaxVersion())
	}
	return last
}

// greatestFloor returns the greatest floor of all keyspaces. Below its floor, history of a
// keyspace may be gone.
func greatestFloor(l *layout.Layout) entry.Version {
	floor := l.Floor()
	for _, k := range l.Keyspaces() {
		floor = max(floor, k.Floor())
	}
	return floor
}

// unreachable explains err, by which files of the state before the damage d can't be opened:
// later work may have replaced and removed them. Without damage it returns err.
func unreachable(d *errs.Corruption, err error) error {
	if d == nil || !errors.Is(err, errs.ErrCorrupt) {
		return err
	}
	return &errs.Corruption{File: d.File, Offset: d.Offset, Err: err,
		Reason: d.Reason + "; files of the state before it are gone or damaged, so the store can't be opened up to there, only salvaged"}
}
