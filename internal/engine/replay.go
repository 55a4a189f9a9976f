package engine

import (
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/internal/vlog/journal"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// replayJournal reads the journal into memtables. A memtable ends where a journal segment ends, if
// the leader would have sealed it before the next segment. One segment always fits, as the leader
// had all of it in one memtable.
func (w *writer) replayJournal(layout *layout.Layout, v *view.View, rec *Recovery) (journal.ReplayResult, error) {
	v.Tables = []*view.Table{newTable(w.cfg, w.tableBytes)}
	var at entry.FileNum
	damaged := rec.Manifest.Damage != nil
	sequel, known := newSequel(layout, damaged), view.KnownJournal(layout)
	known.Closed = known.Closed && !damaged // else a lost edit may have begun another session
	result, err := journal.Replay(journal.ReplayConfig{
		Config: w.files.Segments(), Known: known, ReadOnly: w.cfg.ReadOnly, UpTo: w.cfg.UpTo, NoMap: w.cfg.NoMap,
	}, func(pos entry.Position, payload []byte, h frame.Header) error {
		if err := sequel.check(pos.Segment, &h, payload); err != nil {
			return err
		}
		if pos.Segment != at {
			if err := w.sealReplayed(v, pos.Segment); err != nil {
				return err
			}
		}
		at = pos.Segment
		w.journalBytes += int64(len(payload))
		rec.Frames++
		rec.Entries += int64(h.Records)
		rec.Bytes += h.Size
		v.Active().Replayed = true
		records := h.Walk(payload, pos.Offset)
		return w.addRecords(v.Active(), pos.Segment, &records, 0)
	})
	if err != nil {
		return result, err
	}
	rec.CutBytes, rec.CutFrames = result.CutBytes, result.CutFrames
	var files []*view.Segment
	defer func() { v.Segments = v.Segments.With(files...) }()
	for _, s := range result.Segments {
		f, err := w.files.OpenSegment(filename.Journal, s.File, segment.OpenOptions{End: s.Offset, KeyID: s.KeyID})
		if err != nil {
			return result, err
		}
		files = append(files, f)
	}
	for _, m := range v.Tables {
		s := journal.FindSegment(result.Segments, m.Last)
		m.End = journal.Point{End: s.End, LastVersion: s.Max}
	}
	w.unflushed.found = result.Segments
	return result, nil
}

// sealReplayed begins another memtable for a segment if the last one is full.
func (w *writer) sealReplayed(v *view.View, next entry.FileNum) error {
	info, err := w.cfg.FS.Stat(w.cfg.Path(filename.New(filename.Journal, next)))
	if err != nil {
		return err
	}
	if !v.Active().Empty() && w.isFull(v.Active(), info.Size) {
		v.Tables = append([]*view.Table{newTable(w.cfg, w.tableBytes)}, v.Tables...)
		w.journalBytes = 0
	}
	return nil
}
