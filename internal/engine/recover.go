package engine

import (
	"errors"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/internal/vlog/journal"
	"github.com/brockdb/brock/report"
)

// sequel ends a replay of the journal at the first frame that depends on something that was not
// read. Such a frame is of another copy of the store, or edits of the manifest are lost.
type sequel struct {
	damaged  bool                        // edits are lost
	keyspace func(entry.KeyspaceID) bool // reports whether the layout knows the keyspace
	layout   entry.Version               // last version of the layout
	frames   entry.Version               // last version of the frames so far
}

func newSequel(l *layout.Layout, damaged bool) *sequel {
	known := func(id entry.KeyspaceID) bool { return uint64(id) < l.NextKeyspace() }
	return &sequel{damaged: damaged, keyspace: known, layout: l.LastVersion()}
}

// check returns a *journal.Stop if the frame depends on something that was not read.
func (u *sequel) check(segment entry.FileNum, h *frame.Header, payload []byte) error {
	stop := func(format string, args ...any) error {
		return &journal.Stop{Damage: errs.NewCorruption(filename.Of(filename.Journal, segment), -1, format, args...)}
	}
	// A transaction larger than its memory is in no journal: an edit has committed it.
	if last := max(u.layout, u.frames); h.FirstVersion > last+1 {
		return stop("frame %d has version %d, and no version from %d on is known", h.Number, h.FirstVersion, last+1)
	}
	if h.FirstVersion <= u.frames {
		return stop("frame %d has version %d, after version %d", h.Number, h.FirstVersion, u.frames)
	}
	u.frames = h.LastVersion()
	if !u.damaged {
		return nil
	}
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
func lostBehind(m *manifest.Recovery, v *view.View, result *journal.ReplayResult) *report.Loss {
	damage := m.Damage
	l := &report.Loss{Edits: int64(m.LostEdits), Version: uint64(newest(v))}
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
