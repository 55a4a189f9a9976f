package tree

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/internal/run"
	"github.com/brockdb/brock/internal/segment"
	"github.com/brockdb/brock/internal/view"
)

// files numbers, opens and removes the store's files. What it opens says what
// happens when no View holds it any more.
type files struct {
	cfg    *Config
	open   *pageio.Files // what is read
	chunks *run.Cache    // of runs whose files are not mapped
	spares *spares

	numbers  atomic.Uint64 // last file number given out
	failures atomic.Int64  // files that could not be closed or removed
}

// writtenFiles is how many descriptors are kept for what is written, locked and
// listed: manifest, SUPER, lock, the journal's segment, one run, value segment
// and remap for each piece of work that goes on, directories that are synced.
const writtenFiles = 24

// unsyncedFiles is the part of n descriptors that sealed journal segments may have
// while they wait for their sync; 0 stands for no limit.
func unsyncedFiles(n int) int { return n / 4 }

// readFiles is the part of n descriptors that is for reading.
func readFiles(n int) int {
	if n == 0 {
		return 0
	}
	return max(n-unsyncedFiles(n)-writtenFiles, 1)
}

func newFiles(cfg *Config, s *spares) *files {
	f := &files{cfg: cfg, spares: s, chunks: run.NewCache(cfg.CacheBytes)}
	f.open = pageio.NewFiles(cfg.FS, readFiles(cfg.OpenFiles))
	f.open.Bits = pageio.NewBitMemory(cfg.Memory / bitsShare)
	return f
}

// next gives out a file number that was never used before.
func (f *files) next() entry.FileNum { return entry.FileNum(f.numbers.Add(1)) }

// last is the last file number given out.
func (f *files) last() entry.FileNum { return entry.FileNum(f.numbers.Load()) }

// path is where a file of the store lies.
func (f *files) path(name filename.Name) string {
	if name.Kind.InValueDir() {
		return filepath.Join(f.cfg.ValueDir, name.String())
	}
	return filepath.Join(f.cfg.Dir, name.String())
}

// list returns the names of the store's own files.
func (f *files) list() ([]filename.Name, error) {
	var names []filename.Name
	dirs := []string{f.cfg.Dir}
	if f.cfg.ValueDir != f.cfg.Dir {
		dirs = append(dirs, f.cfg.ValueDir)
	}
	for _, dir := range dirs {
		bases, err := f.cfg.FS.List(dir)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", dir, err)
		}
		for _, base := range bases {
			name, ok := filename.Parse(base)
			if ok && (name.Kind.InValueDir() && dir == f.cfg.ValueDir || !name.Kind.InValueDir() && dir == f.cfg.Dir) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// bytes is the length of all files of the store.
func (f *files) bytes() (n int64) {
	names, err := f.list()
	if err != nil {
		return 0
	}
	for _, name := range names {
		if info, err := f.cfg.FS.Stat(f.path(name)); err == nil { // or it has gone meanwhile
			n += info.Size
		}
	}
	return n
}

// free is what the disk has left, or that of two disks which has less; -1 = not known.
func (f *files) free() int64 {
	free, err := f.cfg.FS.Free(f.cfg.Dir)
	if err != nil {
		return -1
	}
	if f.cfg.ValueDir == f.cfg.Dir {
		return free
	}
	values, err := f.cfg.FS.Free(f.cfg.ValueDir)
	if err != nil {
		return -1
	}
	return min(free, values)
}

// remove removes a file that the manifest no longer names. If it fails, the
// next Open tries again.
func (f *files) remove(name filename.Name) { f.released(f.cfg.FS.Remove(f.path(name))) }

// released counts failures to give something back; nothing depends on them.
func (f *files) released(err error) {
	if err != nil {
		f.failures.Add(1)
	}
}

// removeSpares gives the space of files that wait to be used again back.
func (f *files) removeSpares(closing bool) {
	for _, name := range f.spares.drain(closing) {
		f.remove(name)
	}
}

func (f *files) segments() segment.Config {
	return segment.Config{FS: f.cfg.FS, Dir: f.cfg.ValueDir, UUID: f.cfg.UUID, Files: f.open}
}

// openSegment opens a finished segment, whose records end at end; stamp is their
// version, if they don't say it themselves.
func (f *files) openSegment(kind filename.Kind, num entry.FileNum, end int64, stamp entry.Version) (*view.Segment, error) {
	r, err := segment.Open(f.segments(), kind, num, segment.OpenOptions{End: end, NoMap: f.cfg.NoMap, Stamp: stamp})
	if err != nil {
		return nil, err
	}
	return f.segment(r, kind, num), nil
}

// segment makes r part of a View. Its file goes with the last View that holds it
// if it is retired by then; a journal segment may be kept for use as another one.
func (f *files) segment(r *segment.Reader, kind filename.Kind, num entry.FileNum) *view.Segment {
	return view.NewSegment(r, num, func(retired bool) {
		f.released(r.Close())
		if retired && !(kind == filename.Journal && f.spares.offer(num, r.End())) {
			f.remove(filename.New(kind, num))
		}
	})
}

// openRemap opens what leads from a relocated segment to its target.
func (f *files) openRemap(num entry.FileNum, source entry.FileNum, target *view.Segment) (*view.Segment, error) {
	m, err := segment.OpenRemap(f.segments(), num, f.cfg.NoMap)
	if err != nil {
		return nil, err
	}
	if h := m.Header(); h.Source != source || h.Target != target.Num {
		err := errs.NewCorruption(m.Name(), 0, "leads from segment %d to %d, not from %d to %d", h.Source, h.Target, source, target.Num)
		return nil, errors.Join(err, m.Close())
	}
	return view.NewRelocated(m, target, func(retired bool) {
		f.released(m.Close())
		if retired {
			f.remove(filename.New(filename.Remap, num))
		}
	}), nil
}

// newValueWriter begins a value segment.
func (f *files) newValueWriter() (*segment.ValueWriter, error) {
	return segment.NewValueWriter(f.segments(), f.next())
}

// newRunWriter begins a run. At the bottom it gets no filter: every get that
// comes so far asks its index anyway.
func (f *files) newRunWriter(bottom bool, expiries *entry.Expiries) *run.Writer {
	return run.NewWriter(run.WriterConfig{
		FS:        f.cfg.FS,
		Dir:       f.cfg.Dir,
		UUID:      f.cfg.UUID,
		Seed:      f.cfg.Seed,
		NextNum:   f.next,
		FileBytes: f.cfg.RunFileBytes,
		NoFilter:  bottom,
		Expiries:  expiries,

		FilterKeys: filterKeys(f.cfg.Memory),
	})
}

// openRun opens a run that a layout names.
func (f *files) openRun(m *layout.Run) (*view.Run, error) {
	r, err := run.Open(run.OpenConfig{
		FS: f.cfg.FS, Dir: f.cfg.Dir, UUID: f.cfg.UUID, Seed: f.cfg.Seed, NoMap: f.cfg.NoMap, Cache: f.chunks, Files: f.open,
	}, m.Run)
	if err != nil {
		return nil, err
	}
	return view.NewRun(r, m.ID, m.Order, func(retired bool) {
		f.released(r.Close())
		if retired {
			for _, file := range m.Files {
				f.remove(filename.New(filename.Run, file.Num))
			}
		}
	}), nil
}

// openWritten opens a run that was just written. Nobody knows it yet: what
// reading it for the first time costs is not for a client to pay, if that is little.
func (f *files) openWritten(m *layout.Run) (*view.Run, error) {
	r, err := f.openRun(m)
	if err != nil {
		return nil, err
	}
	if err := r.Warm(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}
