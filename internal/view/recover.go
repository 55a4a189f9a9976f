package view

import (
	"cmp"
	"errors"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/internal/vlog/journal"
)

// RecoverOptions say how Recover reads a store.
type RecoverOptions struct {
	ReadOnly bool             // as in journal.ReplayConfig, also the next one
	UpTo     bool             // the journal ends before damage
	Damage   *errs.Corruption // edits of the manifest are lost behind this; nil: none is
	NewTable func() *Table    // makes a memtable
	Deleted  func(key []byte) // is told of each delete in the journal
}

// Recovered is what Recover has found.
type Recovered struct {
	journal.ReplayResult
	Frames  int             // journal frames replayed
	Entries int64           // entries in them
	Bytes   int64           // of journal read for them
	names   []filename.Name // of the store's files
}

// RecoverView makes the first View of a store: it opens the files that v.Layout names into v, and
// reads the journal into memtables of v. It changes no byte and no name; only journal.Replay may
// write the same bytes again. After an error v has what was opened.
func (f *Opener) RecoverView(v *View, o RecoverOptions) (found Recovered, err error) {
	if found.names, err = f.ListFiles(); err != nil {
		return found, err
	}
	// A stray number would be the last that Next gives out.
	found.names = slices.DeleteFunc(found.names, func(n filename.Name) bool { return n.Number > LastPossible(v.Layout) })
	f.CountFrom(found.names, v.Layout)
	// Before the journal: a store that can't be opened must not have it read, or even mended.
	if _, err := f.NextView(nil, v, v.Layout, nil); err != nil {
		v.NameKeys(err)
		return found, explainUnreachable(o.Damage, err)
	}
	for i, r := range v.Runs {
		r.WeighRanges(v.Runs[i+1:])
	}
	return found, f.replayJournal(v, &o, &found)
}

// explainUnreachable explains err, by which files of the state before the damage d can't be opened:
// later work may have replaced and removed them. Without damage it returns err.
func explainUnreachable(d *errs.Corruption, err error) error {
	if d == nil || !errors.Is(err, errs.ErrCorrupt) {
		return err
	}
	return &errs.Corruption{File: d.File, Offset: d.Offset, Err: err,
		Reason: d.Reason + "; files of the state before it are gone or damaged, so the store can't be opened up to there, only salvaged"}
}

// replayJournal reads the journal into memtables. A memtable ends where a journal segment ends, if
// the leader would have sealed it before the next segment. One segment always fits, as the leader
// had all of it in one memtable.
func (f *Opener) replayJournal(v *View, o *RecoverOptions, found *Recovered) (err error) {
	v.Tables = []*Table{o.NewTable()}
	var at entry.FileNum
	sequel, known := sequel{damaged: o.Damage != nil, layout: v.Layout}, KnownJournal(v.Layout)
	known.Closed = known.Closed && o.Damage == nil // else a lost edit may have begun another session
	found.ReplayResult, err = journal.Replay(journal.ReplayConfig{
		Config: f.SegmentConfig(), Known: known, ReadOnly: o.ReadOnly, UpTo: o.UpTo, NoMap: f.cfg.NoMap,
	}, func(pos entry.Position, payload []byte, h frame.Header) error {
		if err := sequel.checkFrame(pos.Segment, &h, payload); err != nil {
			return err
		}
		if pos.Segment != at {
			if err := f.sealReplayed(v, pos.Segment, o.NewTable); err != nil {
				return err
			}
		}
		at = pos.Segment
		found.Frames++
		found.Entries += int64(h.Records)
		found.Bytes += h.Size
		v.Active().Replayed = true
		a := v.Active().BeginFrame(&h, payload, pos)
		return a.AddAll(o.Deleted)
	})
	if err != nil {
		return err
	}
	// All but the journal's segments is in v already.
	if _, err := f.NextView(nil, v, v.Layout, found.Segments); err != nil {
		return err
	}
	for _, m := range v.Tables {
		s := journal.FindSegment(found.Segments, m.Last)
		m.End = journal.Point{End: s.End, LastVersion: s.Max}
	}
	return nil
}

// sealReplayed begins another memtable for a segment if the last one is full.
func (f *Opener) sealReplayed(v *View, next entry.FileNum, newTable func() *Table) error {
	// By the length of the file: its records are not known before they are added.
	info, err := f.cfg.FS.Stat(f.cfg.Path(filename.New(filename.Journal, next)))
	if err != nil {
		return err
	}
	if !v.Active().Empty() && v.Active().IsFull(info.Size) {
		v.Tables = append([]*Table{newTable()}, v.Tables...)
	}
	return nil
}

// sequel ends a replay of the journal at the first frame that depends on something that was not
// read. Such a frame is of another copy of the store, or edits of the manifest are lost.
type sequel struct {
	damaged bool           // edits are lost
	layout  *layout.Layout // what was read of the manifest
	frames  entry.Version  // last version of the frames so far
}

// checkFrame returns a *journal.Stop if the frame depends on something that was not read.
func (u *sequel) checkFrame(segment entry.FileNum, h *frame.Header, payload []byte) error {
	stop := func(format string, args ...any) error {
		return &journal.Stop{Damage: errs.NewCorruption(filename.Of(filename.Journal, segment), -1, format, args...)}
	}
	// A transaction larger than its memory is in no journal: an edit has committed it.
	if last := max(u.layout.LastVersion(), u.frames); !h.Follows(last) {
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
		if id, ok := entry.KeyspaceOf(r.Key); ok && uint64(id) >= u.layout.NextKeyspace() {
			return stop("frame %d writes to a keyspace that is not known", h.Number)
		}
	}
	return nil
}

// KnownJournal returns what the layout says of the journal behind the part that is in runs.
func KnownJournal(l *layout.Layout) journal.Known {
	k := journal.Known{Version: l.LastVersion(), Last: LastPossible(l), Closed: l.CleanClose()}
	k.Begin = journal.Point{End: frame.End{Name: frame.Name{File: l.FlushedTo()}}, LastVersion: l.LastVersion()}
	for _, s := range l.Sessions() {
		k.Found = append(k.Found, s.Found)
		// The session has made durable what it found before it recorded that.
		if s.Found.File > l.FlushedTo() {
			k.Durable = append(k.Durable, s.Found)
		}
	}
	for _, e := range l.JournalEnds() {
		if e.File == l.FlushedTo() {
			k.Begin.End = e
		} else if e.File > l.FlushedTo() {
			k.Durable = append(k.Durable, e)
		}
	}
	slices.SortFunc(k.Durable, func(a, b frame.End) int { return cmp.Compare(a.Number, b.Number) })
	return k
}
