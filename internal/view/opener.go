package view

import (
	"errors"
	"io"
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/run"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// OpenerConfig is what an Opener needs.
type OpenerConfig struct {
	filename.Store
	Follow       bool  // another process writes the files: those of the journal may go on growing
	VerifyReads  bool  // verify what is mapped each time that it is read
	OpenFiles    int   // file descriptors, at most; 0 = no limit
	Memory       int64 // bytes that all parts of the store may take; 0 = no bound
	RunFileBytes int64 // bytes at which a file of a run ends
}

// Opener numbers, opens and removes the files of a store. The runs and segments that it opens close
// themselves, and remove their files if they are retired, when the last View that holds them is
// released.
type Opener struct {
	cfg    OpenerConfig
	Open   *pageio.Files // the files that are open for reading
	Chunks *pageio.Cache // of runs whose files are encrypted, or not mapped

	numbers  atomic.Uint64 // last file number given out
	Failures atomic.Int64  // files that could not be closed or removed
}

// writtenFiles is how many descriptors are reserved for files that are written or locked, and for
// directories: the manifest, SUPER, the journal's segment; a run, a value segment and a forwarding
// table for each work in the background; and four for each directory, which is held open and
// locked.
const writtenFiles = 24

// UnsyncedFiles returns how many of n descriptors sealed journal segments may use while they wait
// for their sync. 0 stands for no limit, in n and in the result.
func UnsyncedFiles(n int) int { return n / 4 }

// openForReading returns how many of n descriptors are for reading; 0 is no limit.
func openForReading(n int) int {
	if n == 0 {
		return 0
	}
	return max(n-UnsyncedFiles(n)-writtenFiles, 1)
}

// NewOpener returns an Opener of the files of a store. The store may have no files yet.
func NewOpener(cfg OpenerConfig) *Opener {
	f := &Opener{cfg: cfg, Chunks: pageio.NewCache(cfg.Memory / cacheShare)}
	f.Open = pageio.NewFiles(cfg.FS, openForReading(cfg.OpenFiles))
	f.Open.Bits = pageio.NewBitMemory(cfg.Memory/bitsShare, cfg.VerifyReads)
	return f
}

// NextNum gives out a file number that was never used before.
func (f *Opener) NextNum() entry.FileNum { return entry.FileNum(f.numbers.Add(1)) }

// LastNum is the last file number given out.
func (f *Opener) LastNum() entry.FileNum { return entry.FileNum(f.numbers.Load()) }

// ListFiles returns the names of the store's own files.
func (f *Opener) ListFiles() ([]filename.Name, error) { return f.cfg.List() }

// FileBytes returns the sum of the lengths of the store's files, and 0 if they can't be listed.
func (f *Opener) FileBytes() (n int64) {
	names, err := f.ListFiles()
	if err != nil {
		return 0
	}
	for _, name := range names {
		if info, err := f.cfg.FS.Stat(f.cfg.Path(name)); err == nil { // or it has gone meanwhile
			n += info.Size
		}
	}
	return n
}

// FreeBytes returns how many bytes are free on the disk; with a value directory, on the disk that
// has less. It returns -1 if that is not known.
func (f *Opener) FreeBytes() int64 {
	least := int64(math.MaxInt64)
	for _, dir := range f.cfg.Dirs() {
		free, err := f.cfg.FS.Free(dir)
		if err != nil {
			return -1
		}
		least = min(least, free)
	}
	return least
}

// RemoveFile removes a file that the manifest no longer names. If it fails, the
// next Open tries again.
func (f *Opener) RemoveFile(name filename.Name) { f.countFailure(f.cfg.FS.Remove(f.cfg.Path(name))) }

// countFailure counts failures to close or remove a file. The store stays correct after them.
func (f *Opener) countFailure(err error) {
	if err != nil {
		f.Failures.Add(1)
	}
}

// SegmentConfig returns the configuration for readers and writers of segments.
func (f *Opener) SegmentConfig() segment.Config {
	return segment.Config{FS: f.cfg.FS, Dir: f.cfg.ValueDir, UUID: f.cfg.UUID, Ring: f.cfg.Ring, Files: f.Open}
}

// leastGrowing is the least length for which a growing segment is mapped. It is doubled
// each time that the segment has grown beyond, which costs address space only.
const leastGrowing = 1 << 20

// OpenSegment opens a segment that is finished, or one that goes on growing in a store that is
// followed. s says where its records end, the file key id that its file must have, and the version
// of the records, if they don't say it themselves.
func (f *Opener) OpenSegment(s *layout.Segment) (*Segment, error) {
	o := segment.OpenOptions{End: int64(s.FileBytes), Stamp: s.Stamp, KeyID: s.KeyID, NoMap: f.cfg.NoMap}
	if f.cfg.Follow && s.Kind == filename.Journal {
		// Room to grow: a segment that outgrows its mapping is opened anew.
		o.Limit = max(int64(1)<<bits.Len64(uint64(o.End)), leastGrowing)
	}
	r, err := segment.Open(f.SegmentConfig(), s.Kind, s.Num, o)
	if err != nil {
		return nil, err
	}
	return f.ShareSegment(r, s.Num), nil
}

// openFeedSegment opens a segment that only the change feed reads: front to back, so that its memory
// does not follow the length of the file.
func (f *Opener) openFeedSegment(s *layout.Segment) (*Segment, error) {
	r, err := segment.Open(f.SegmentConfig(), s.Kind, s.Num, segment.OpenOptions{
		End: int64(s.FileBytes), Stamp: s.Stamp, KeyID: s.KeyID, NoMap: true, FramesOnly: s.Kind == filename.Journal,
	})
	if err != nil {
		return nil, err
	}
	return f.ShareSegment(r, s.Num), nil
}

// ShareSegment makes r part of a View, as one of a segment that the journal is writing.
func (f *Opener) ShareSegment(r *segment.Reader, num entry.FileNum) *Segment {
	return &Segment{Reader: r, shared: f.shareFiles(r, filename.New(r.Header().Kind, num)), Num: num}
}

// shareFiles makes an open resource part of Views. The last View that holds it closes it, and
// removes its files if it is retired by then.
func (f *Opener) shareFiles(open io.Closer, files ...filename.Name) shared {
	return shared{release: func(retired bool) {
		// Closed first: some systems do not remove an open file.
		f.countFailure(open.Close())
		if retired {
			for _, name := range files {
				f.RemoveFile(name)
			}
		}
	}}
}

// OpenForwarding opens the forwarding table of a relocated segment: it leads from the segment's old
// offsets to those in target.
func (f *Opener) OpenForwarding(s layout.SegmentState, target *Segment) (*Segment, error) {
	m, err := segment.OpenForwarding(f.SegmentConfig(), s.Map, s.KeyID, f.cfg.NoMap)
	if err != nil {
		return nil, err
	}
	// A wrong table would lead handles to other records, which may even verify.
	if h := m.Header(); h.Source != s.Num || h.Target != target.Num {
		err := errs.NewCorruption(m.Name(), 0, "leads from segment %d to %d, not from %d to %d", h.Source, h.Target, s.Num, target.Num)
		return nil, errors.Join(err, m.Close())
	}
	return &Segment{
		Num:    s.Num,
		shared: f.shareFiles(m, filename.New(filename.Forwarding, s.Map)),
		Moved:  &Relocation{Forwarding: m, Target: target},
	}, nil
}

// NewValueWriter begins a value segment.
func (f *Opener) NewValueWriter() (*segment.ValueWriter, error) {
	return segment.NewValueWriter(f.SegmentConfig(), f.NextNum())
}

// NewRunWriter begins a run. A run at the bottom gets no filter: most keys that a get looks for
// there exist, so it must read the index anyway. about is run.WriterConfig.About.
func (f *Opener) NewRunWriter(bottom bool, expiries *entry.Expiries, about func([]layout.RunFile, []byte, []byte) []byte) *run.Writer {
	return run.NewWriter(run.WriterConfig{
		FS:        f.cfg.FS,
		Dir:       f.cfg.Dir,
		UUID:      f.cfg.UUID,
		Ring:      f.cfg.Ring,
		Seed:      f.cfg.Seed,
		NextNum:   f.NextNum,
		FileBytes: f.cfg.RunFileBytes,
		NoFilter:  bottom,
		Expiries:  expiries,
		About:     about,

		FilterKeys: FilterKeys(f.cfg.Memory),
	})
}

// OpenRun opens a run that a layout names.
func (f *Opener) OpenRun(m *layout.Run) (*Run, error) {
	r, err := run.Open(run.OpenConfig{
		FS: f.cfg.FS, Dir: f.cfg.Dir, UUID: f.cfg.UUID, Ring: f.cfg.Ring, Seed: f.cfg.Seed, NoMap: f.cfg.NoMap, Cache: f.Chunks, Files: f.Open,
	}, m.RunMeta)
	if err != nil {
		return nil, err
	}
	var names []filename.Name
	for _, file := range m.Files {
		names = append(names, filename.New(filename.Run, file.Num))
	}
	return &Run{Reader: r, shared: f.shareFiles(r, names...), ID: m.ID}, nil
}

// OpenWritten opens a run that was just written. If the run is small, it is also read and
// verified here, so that no client pays for that.
func (f *Opener) OpenWritten(m *layout.Run) (*Run, error) {
	r, err := f.OpenRun(m)
	if err != nil {
		return nil, err
	}
	if err := r.WarmUp(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// What of OpenerConfig.Memory the files may take. The memtables, the greatest part of all memory,
// are bounded by their size (MemtableBytes) and number (policy.ThrottleMostTables).
const (
	cacheShare  = 4   // 1/4 for chunks of runs that are not mapped
	bitsShare   = 16  // 1/16 for what is known of pages and records
	filterShare = 128 // 1/128 for hashes of keys whose filter is not written yet
)

// FilterKeys is the number of keys for which a filter is made at most.
func FilterKeys(memory int64) int {
	if memory == 0 {
		return run.DefaultFilterKeys
	}
	return int(min(max(memory/filterShare/8, 1<<12), run.DefaultFilterKeys))
}
