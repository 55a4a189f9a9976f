package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/frame"
	"github.com/brockdb/brock/internal/journal"
	"github.com/brockdb/brock/internal/manifest"
	"github.com/brockdb/brock/internal/run"
	"github.com/brockdb/brock/internal/segment"
)

// Recovery says what Open found.
type Recovery struct {
	Frames    int   // journal frames replayed
	Entries   int64 // entries in them
	Bytes     int64 // of journal read for them
	CutBytes  int64 // of the journal's torn tail
	CutFrames int   // whole frames behind it, which cannot count
	Removed   int   // files that nothing refers to
}

// Open opens the files that the manifest names, replays the journal and removes
// what a crash left over. The caller holds the store's lock.
func Open(cfg Config, log *manifest.Log) (t *Tree, rec Recovery, err error) {
	if cfg.Policy.SegmentBytes == 0 {
		cfg.Policy.SegmentBytes = uint64(cfg.SegmentBytes)
	}
	t = &Tree{cfg: cfg, log: log, chunks: run.NewCache(cfg.CacheBytes), changed: make(chan struct{})}
	t.closing, t.close = context.WithCancelCause(context.Background())
	t.views.epochs.init(t.reclaimSoon)
	t.leader = t.views.epochs.reserve()
	layout := log.Layout()
	t.floor.Store(uint64(layout.Floor()))
	view := &View{layout: layout}
	defer func() {
		if err != nil {
			view.each(func(s *shared) { s.release() })
		}
	}()
	names, err := t.list()
	if err != nil {
		return nil, rec, err
	}
	t.numbers.Store(uint64(highest(names, layout)))
	if err := t.openLayout(layout, view); err != nil {
		return nil, rec, err
	}
	result, err := t.replay(layout, view, &rec)
	if err != nil {
		return nil, rec, err
	}
	t.published.Store(uint64(max(layout.LastVersion(), result.Begin.LastVersion)))
	if !cfg.ReadOnly {
		if rec.Removed, err = t.removeLeftovers(names, layout, result); err != nil {
			return nil, rec, err
		}
		t.journal = journal.New(journal.Config{
			FS: cfg.FS, Dir: cfg.ValueDir, UUID: cfg.UUID, SegmentBytes: cfg.SegmentBytes, NextNum: t.nextFile,
			Recycle: t.spares.take, Begin: result.Begin, NoMap: cfg.NoMap,
		})
	}
	t.prepareBackground()
	t.views.install(view)
	return t, rec, nil
}

// list returns the names of the store's own files.
func (t *Tree) list() ([]filename.Name, error) {
	var names []filename.Name
	dirs := []string{t.cfg.Dir}
	if t.cfg.ValueDir != t.cfg.Dir {
		dirs = append(dirs, t.cfg.ValueDir)
	}
	for _, dir := range dirs {
		bases, err := t.cfg.FS.List(dir)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", dir, err)
		}
		for _, base := range bases {
			name, ok := filename.Parse(base)
			if ok && (name.Kind.InValueDir() && dir == t.cfg.ValueDir || !name.Kind.InValueDir() && dir == t.cfg.Dir) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// highest is the last file number that may be in use. Manifests are numbered by themselves.
func highest(names []filename.Name, layout *manifest.Layout) entry.FileNum {
	last := layout.NextFile() - 1
	for _, n := range names {
		if n.Kind != filename.Manifest {
			last = max(last, n.Number)
		}
	}
	return last
}

// openLayout opens the runs and segments that the manifest names.
func (t *Tree) openLayout(layout *manifest.Layout, view *View) error {
	for _, m := range layout.Runs() {
		r, err := t.openRun(m)
		if err != nil {
			return missing(err, "a run that the manifest names")
		}
		view.runs = append(view.runs, r)
	}
	var files []*valueFile
	for _, s := range layout.Segments() {
		if s.State().Status != manifest.Live {
			continue
		}
		f, err := t.openSegment(s.Kind, s.Num, int64(s.FileBytes))
		if err != nil {
			return missing(err, "a segment that the manifest names")
		}
		files = append(files, f)
		view.segments = newSegmentIndex(files)
	}
	return t.openRemaps(layout, view)
}

// openRemaps opens what leads to the records of relocated segments.
func (t *Tree) openRemaps(layout *manifest.Layout, view *View) error {
	for _, s := range layout.Segments() {
		st := s.State()
		if st.Status != manifest.Relocated {
			continue
		}
		target := view.segments.find(st.Target)
		if target == nil || target.moved != nil {
			return fmt.Errorf("segment %d is relocated to segment %d, which is relocated itself: %w", s.Num, st.Target, errs.ErrFormat)
		}
		f, err := t.openRemap(st.Map, s.Num, target)
		if err != nil {
			return missing(err, "a remap that the manifest names")
		}
		view.segments = view.segments.with(f)
	}
	return nil
}

// missing turns the absence of a file that must be there into a report of damage.
func missing(err error, what string) error {
	var path *fs.PathError
	if !errors.As(err, &path) || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	c := errs.NewCorruption(filepath.Base(path.Path), -1, "%s is not there", what)
	c.Err = err
	return c
}

// replay reads the journal into memtables. A memtable ends where a segment
// ends, once it is full.
func (t *Tree) replay(layout *manifest.Layout, view *View, rec *Recovery) (journal.ReplayResult, error) {
	view.tables = []*table{t.newTable()}
	var at entry.FileNum
	begin, durable := startOf(layout)
	result, err := journal.Replay(journal.ReplayConfig{
		FS: t.cfg.FS, Dir: t.cfg.ValueDir, UUID: t.cfg.UUID, Begin: begin, Durable: durable, ReadOnly: t.cfg.ReadOnly, NoMap: t.cfg.NoMap,
	}, func(pos journal.Position, payload []byte, h frame.Header) error {
		if pos.Segment != at && int(view.active().Bytes()) >= t.cfg.MemtableBytes {
			view.tables = append([]*table{t.newTable()}, view.tables...)
		}
		at = pos.Segment
		rec.Frames++
		rec.Entries += int64(h.Records)
		rec.Bytes += h.Size
		return t.add(view.active(), payload, pos)
	})
	if err != nil {
		return result, err
	}
	rec.CutBytes, rec.CutFrames = result.CutBytes, result.CutFrames
	for _, s := range result.Segments {
		f, err := t.openSegment(filename.Journal, s.Num, s.End)
		if err != nil {
			return result, err
		}
		view.segments = view.segments.with(f)
		s.Sealed = true // if not by a seal, then by the crash: it never grows again
		t.replayed = append(t.replayed, s)
	}
	for _, m := range view.tables {
		m.end = t.pointAfter(m.last)
	}
	return result, nil
}

// startOf says where the part of the journal begins that is not yet in runs, and
// which of its frames are known to have been durable.
func startOf(layout *manifest.Layout) (begin journal.Point, durable uint64) {
	begin.LastSegment = layout.FlushedTo()
	begin.LastVersion = layout.LastVersion()
	for _, e := range layout.JournalEnds() {
		durable = max(durable, e.Frame)
		if e.Segment == layout.FlushedTo() {
			begin.NextFrame, begin.Chain = e.Frame+1, e.Chain
		}
	}
	return begin, durable
}

// removeLeftovers removes files that neither the manifest nor the journal needs
// and that this store has written, whole or in part. Whatever else has such a
// name stays.
func (t *Tree) removeLeftovers(names []filename.Name, layout *manifest.Layout, result journal.ReplayResult) (removed int, err error) {
	needed := make(map[filename.Name]bool)
	for name := range layout.Files() {
		needed[name] = true
	}
	for _, s := range result.Segments {
		needed[filename.New(filename.Journal, s.Num)] = true
	}
	for _, name := range names {
		switch name.Kind {
		case filename.Journal, filename.Value, filename.Run, filename.Remap:
		default:
			continue
		}
		if needed[name] || !t.ours(name) {
			continue
		}
		if err := t.cfg.FS.Remove(t.path(name)); err != nil {
			return removed, fmt.Errorf("remove %s: %w", name, err)
		}
		removed++
	}
	return removed, nil
}

// Close ends background work and waits for it, makes the journal durable and
// records where it ends, and closes the manifest. The commit pipeline has been
// closed before. Files are closed when the last reader has let go of them.
func (t *Tree) Close() error {
	if t.closed.Swap(true) {
		return nil
	}
	t.close(errs.ErrClosed)
	t.mu.Lock()
	t.wakeLocked()
	t.mu.Unlock()
	err := t.cfg.Jobs.Close(context.Background())
	t.work.merging.Lock() // Compact and Reclaim do their work on the goroutine of their caller
	defer t.work.merging.Unlock()
	t.work.collecting.Lock()
	defer t.work.collecting.Unlock()
	t.slowed.end(t)
	if !t.cfg.ReadOnly {
		err = errors.Join(err, t.closeJournal())
	}
	err = errors.Join(err, t.log.Close())
	t.mu.Lock()
	t.views.install(&View{layout: t.layout()})
	t.mu.Unlock()
	t.reclaim()
	t.removeSpares(true)
	return err
}

// closeJournal makes the journal durable and records its end.
func (t *Tree) closeJournal() error {
	if err := t.journal.Close(); err != nil {
		return err
	}
	t.recording.Lock()
	defer t.recording.Unlock()
	edit := &manifest.Edit{CleanClose: true, LastVersion: t.Visible(), NextFile: t.lastFile() + 1}
	if segments := t.journalSegments(); len(segments) > 0 {
		edit.JournalEnds = []manifest.JournalEnd{endOf(segments[len(segments)-1])}
	}
	_, err := t.log.Append(edit)
	return err
}

// endOf is the end of a segment that is durable as a whole.
func endOf(s journal.SegmentInfo) manifest.JournalEnd {
	return manifest.JournalEnd{Segment: s.Num, Offset: uint64(s.End), Frame: s.LastFrame, Chain: s.Chain}
}

// forget drops the segments up to number last, whose records are in runs.
func (t *Tree) forget(last entry.FileNum) {
	t.journal.Forget(last)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.replayed = slices.DeleteFunc(slices.Clone(t.replayed), func(s journal.SegmentInfo) bool { return s.Num <= last })
}

// journalSize is the length of a journal segment up to its last frame.
func (t *Tree) journalSize(num entry.FileNum) int64 {
	for _, s := range t.journalSegments() {
		if s.Num == num {
			return s.End
		}
	}
	return 0
}

// journalSegments describes the segments that are not yet in runs, in order.
func (t *Tree) journalSegments() []journal.SegmentInfo {
	t.mu.Lock()
	replayed := t.replayed
	t.mu.Unlock()
	if t.journal == nil {
		return replayed
	}
	return append(replayed[:len(replayed):len(replayed)], t.journal.Segments()...)
}

// pointAfter is the place in the journal where a replayed segment ends.
func (t *Tree) pointAfter(num entry.FileNum) journal.Point {
	for _, s := range t.replayed {
		if s.Num == num {
			return journal.Point{NextFrame: s.LastFrame + 1, Chain: s.Chain, LastVersion: s.Max, LastSegment: num}
		}
	}
	return journal.Point{}
}

// ours reports whether a file was written by this store, or never got any
// content: what a crash leaves of a file that was just created.
func (t *Tree) ours(name filename.Name) bool {
	f, err := t.cfg.FS.Open(t.path(name))
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, segment.HeaderSize)
	n, err := f.ReadAt(head, 0)
	return (err == nil || errors.Is(err, io.EOF)) && headerIsOurs(head[:n], t.cfg.UUID)
}
