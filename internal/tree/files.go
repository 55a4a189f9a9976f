package tree

import (
	"errors"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/run"
	"github.com/brockdb/brock/internal/segment"
	"github.com/brockdb/brock/internal/view"
)

// Opening of files, each with what happens when no View holds it any more.

func (t *Tree) segmentConfig() segment.Config {
	return segment.Config{FS: t.cfg.FS, Dir: t.cfg.ValueDir, UUID: t.cfg.UUID, Files: t.files}
}

// writtenFiles is how many descriptors are kept for what is written, locked and
// listed: manifest, SUPER, lock, the journal's segment, one run, value segment
// and remap for each piece of work that goes on, directories that are synced.
const writtenFiles = 24

// unsyncedFiles is which part of so many descriptors sealed journal segments may
// have that wait for their sync; 0 stands for no limit.
func unsyncedFiles(n int) int { return n / 4 }

// readFiles is which part of them is for reading.
func readFiles(n int) int {
	if n == 0 {
		return 0
	}
	return max(n-unsyncedFiles(n)-writtenFiles, 1)
}

// openSegment opens a finished segment, whose records end at end; stamp is their
// version, if they don't say it themselves.
func (t *Tree) openSegment(kind filename.Kind, num entry.FileNum, end int64, stamp entry.Version) (*view.Segment, error) {
	r, err := segment.Open(t.segmentConfig(), kind, num, segment.OpenOptions{End: end, NoMap: t.cfg.NoMap, Stamp: stamp})
	if err != nil {
		return nil, err
	}
	return t.valueFile(r, kind, num), nil
}

// valueFile makes r part of a View. Its file goes with the last View that holds it
// if it is retired by then; a journal segment may be kept for use as another one.
func (t *Tree) valueFile(r *segment.Reader, kind filename.Kind, num entry.FileNum) *view.Segment {
	return view.NewSegment(r, num, func(retired bool) {
		t.noteRelease(r.Close())
		if retired && !(kind == filename.Journal && t.spare(r.End()) && t.spares.offer(num, r.End())) {
			t.removeFile(filename.New(kind, num))
		}
	})
}

// openRemap opens what leads from a relocated segment to its target.
func (t *Tree) openRemap(num entry.FileNum, source entry.FileNum, target *view.Segment) (*view.Segment, error) {
	m, err := segment.OpenRemap(t.segmentConfig(), num, t.cfg.NoMap)
	if err != nil {
		return nil, err
	}
	if h := m.Header(); h.Source != source || h.Target != target.Num {
		err := errs.NewCorruption(m.Name(), 0, "leads from segment %d to %d, not from %d to %d", h.Source, h.Target, source, target.Num)
		return nil, errors.Join(err, m.Close())
	}
	return view.NewRelocated(m, target, func(retired bool) {
		t.noteRelease(m.Close())
		if retired {
			t.removeFile(filename.New(filename.Remap, num))
		}
	}), nil
}

// newRunWriter begins a run. At the bottom it gets no filter: every get that
// comes so far asks its index anyway.
func (t *Tree) newRunWriter(bottom bool, expiries *entry.Expiries) *run.Writer {
	return run.NewWriter(run.WriterConfig{
		FS:        t.cfg.FS,
		Dir:       t.cfg.Dir,
		UUID:      t.cfg.UUID,
		Seed:      t.cfg.Seed,
		NextNum:   t.nextFile,
		FileBytes: t.cfg.RunFileBytes,
		NoFilter:  bottom,
		Expiries:  expiries,

		FilterKeys: filterKeys(t.cfg.Memory),
	})
}

// openRun opens a run that a layout names.
func (t *Tree) openRun(m *layout.Run) (*view.Run, error) {
	r, err := run.Open(run.OpenConfig{FS: t.cfg.FS, Dir: t.cfg.Dir, UUID: t.cfg.UUID, Seed: t.cfg.Seed, NoMap: t.cfg.NoMap, Cache: t.chunks, Files: t.files}, m.Run)
	if err != nil {
		return nil, err
	}
	return view.NewRun(r, m.ID, m.Order, func(retired bool) {
		t.noteRelease(r.Close())
		if retired {
			for _, f := range m.Files {
				t.removeFile(filename.New(filename.Run, f.Num))
			}
		}
	}), nil
}

// openWritten opens a run that was just written. Nobody knows it yet: what
// reading it for the first time costs is not for a client to pay, if that is little.
func (t *Tree) openWritten(m *layout.Run) (*view.Run, error) {
	s, err := t.openRun(m)
	if err != nil {
		return nil, err
	}
	if err := s.Warm(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// removeFile removes a file that the manifest no longer names. If it fails, the
// next Open tries again.
func (t *Tree) removeFile(name filename.Name) { t.noteRelease(t.cfg.FS.Remove(t.path(name))) }

// noteRelease counts failures to give something back; nothing depends on them.
func (t *Tree) noteRelease(err error) {
	if err != nil {
		t.stats.releaseFailures.Add(1)
	}
}
