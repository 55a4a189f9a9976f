package tree

import (
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/compact"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/view"
)

// Work is a finished piece of background work.
type Work struct {
	Kind     string // "flush", "merge", "collection", "clustering" or "spill"
	Reason   string
	Runs     int   // merged
	Segments int   // collected or sorted
	BytesIn  int64 // read
	BytesOut int64 // written
	Entries  uint64
	Dropped  uint64
	Took     time.Duration
	Err      error // why it was not finished
}

// counters are what the tree counts since Open.
type counters struct {
	flushes, flushedBytes atomic.Int64
	merges, mergedBytes   atomic.Int64
	collections, moved    atomic.Int64
	spills, spilled       atomic.Int64
	clusterings, sorted   atomic.Int64
	journalBytes          atomic.Int64
	stalls, stalled       atomic.Int64 // times and nanoseconds that writers were slowed
	refused               atomic.Int64 // commits, for want of space
	releaseFailures       atomic.Int64
}

// done notes what came of it.
func (w *Work) done(out *compact.Output) {
	w.Entries, w.Dropped, w.BytesOut = out.Read, out.Dropped, outputBytes(out)
}

func (t *Tree) report(w Work, err error) {
	w.Err = err
	switch {
	case err != nil: // counted are those that came to an end
	case w.Kind == "flush":
		t.stats.flushes.Add(1)
		t.stats.flushedBytes.Add(w.BytesOut)
	case w.Kind == "collection":
		t.stats.collections.Add(1)
		t.stats.moved.Add(w.BytesOut)
	case w.Kind == "spill":
		t.stats.spills.Add(1)
		t.stats.spilled.Add(w.BytesOut)
	case w.Kind == "clustering":
		t.stats.clusterings.Add(1)
		t.stats.sorted.Add(w.BytesOut)
	default:
		t.stats.merges.Add(1)
		t.stats.mergedBytes.Add(w.BytesOut)
	}
	if t.cfg.OnWork != nil {
		t.cfg.OnWork(w)
	}
}

// Stats describes the store now, and what was done since Open.
type Stats struct {
	Version         entry.Version
	Memtables       int
	MemtableEntries int64
	MemtableBytes   int64
	Runs            int
	RunFiles        int
	RunEntries      int64
	RunBytes        int64 // in the files of runs
	Segments        int
	SegmentBytes    int64         // in journal and value segments
	Remaps          int           // collected segments that handles still lead through
	RemapBytes      int64         // in their files
	DeadBytes       int64         // of them, values that no entry needs
	LiveBytes       int64         // of runs and segments, what entries need
	ExpiredBytes    int64         // of them, keys and values that have expired and wait for a merge
	ExpiryWait      time.Duration // until the alarm of expiry rings; 0 = it is not set
	Flushes         int64
	FlushedBytes    int64
	Merges          int64
	MergedBytes     int64
	Collections     int64
	MovedBytes      int64 // written by them
	Spills          int64 // transactions larger than their memory
	SpilledBytes    int64 // written by them
	Clusterings     int64
	SortedBytes     int64 // written by them
	ScatteredBytes  int64 // of values that scans had to jump to; what clusterings were done for is taken off
	JournalBytes    int64 // appended since Open
	Stalls          int64
	Stalled         time.Duration
	FreeBytes       int64           // left by disk and limit, as last looked at; -1 = not known
	ReserveBytes    int64           // of it, kept for deletes and for work that frees some
	Refused         int64           // commits, for want of space
	Readers         int             // pins held
	Held            view.LongReader // by readers
	Memory          Memory
	OpenFiles       int // descriptors, for reading and of the journal
	MappedFiles     int
	ReleaseFailures int64 // files that could not be closed or removed
}

// Stats costs a look at every run and segment.
func (t *Tree) Stats() Stats {
	s := Stats{
		Version: t.Visible(),
		Flushes: t.stats.flushes.Load(), FlushedBytes: t.stats.flushedBytes.Load(),
		Merges: t.stats.merges.Load(), MergedBytes: t.stats.mergedBytes.Load(),
		Collections: t.stats.collections.Load(), MovedBytes: t.stats.moved.Load(),
		Spills: t.stats.spills.Load(), SpilledBytes: t.stats.spilled.Load(),
		Clusterings: t.stats.clusterings.Load(), SortedBytes: t.stats.sorted.Load(), ScatteredBytes: int64(t.scattered.Load()),
		JournalBytes: t.stats.journalBytes.Load(),
		Stalls:       t.stats.stalls.Load(), Stalled: time.Duration(t.stats.stalled.Load()),
		FreeBytes: t.full.left.Load(), ReserveBytes: t.full.keep.Load(), Refused: t.stats.refused.Load(),
		ReleaseFailures: t.stats.releaseFailures.Load(),
	}
	s.Readers = t.views.Readers()
	s.Held = t.views.LongReader()
	s.OpenFiles, s.MappedFiles = t.files.Count(), t.files.Mapped()
	if t.journal != nil {
		s.OpenFiles += t.journal.Open()
	}
	hold, err := t.views.Acquire(0)
	if err != nil {
		return s
	}
	defer hold.Release()
	s.Memory = t.memory(hold.View())
	for _, m := range hold.View().Tables {
		s.Memtables++
		s.MemtableEntries += int64(m.Len())
		s.MemtableBytes += m.Bytes()
	}
	l := hold.View().Layout
	var live, expired uint64
	now := t.unixMilli()
	for _, r := range l.Runs() {
		s.Runs++
		s.RunFiles += len(r.Files)
		s.RunEntries += int64(r.Entries)
		s.RunBytes += int64(r.FileBytes())
		for _, x := range r.Expiry {
			if x.At <= now {
				expired += x.Bytes
			}
		}
	}
	live += uint64(s.RunBytes)
	for _, f := range hold.View().Segments.Files {
		if f.Moved != nil {
			s.Remaps++
			s.RemapBytes += f.Moved.Size()
		}
	}
	for _, f := range l.Segments() {
		if f.State().Status != layout.Live {
			continue
		}
		s.Segments++
		s.SegmentBytes += int64(f.FileBytes)
		s.DeadBytes += int64(f.DeadBytes())
		live += f.FileBytes - min(f.DeadBytes(), f.FileBytes)
	}
	for _, f := range t.journalSegments() {
		s.Segments++
		s.SegmentBytes += f.End
		live += uint64(f.End)
	}
	s.LiveBytes, s.ExpiredBytes, s.ExpiryWait = int64(live), int64(expired), t.expiryWait()
	return s
}
