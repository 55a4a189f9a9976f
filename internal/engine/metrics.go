package engine

import (
	"time"

	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/vlog/journal"
)

// Metrics describes the store now, and what was done since Open. The root converts it to its
// TreeMetrics: the fields and their order are the same, and TreeMetrics explains them.
type Metrics struct {
	Version         uint64
	Memtables       int
	MemtableEntries int64
	MemtableBytes   int64
	Runs            int
	RunEntries      int64
	RunBytes        int64
	Segments        int
	SegmentBytes    int64
	LiveBytes       int64
	DeadBytes       int64
	ExpiredBytes    int64
	ExpiryWait      time.Duration
	Flushes         int64
	FlushedBytes    int64
	Compactions     int64
	CompactedBytes  int64
	Collections     int64
	CollectedBytes  int64
	JumpedBytes     int64
	ForwardingBytes int64
	Spills          int64
	SpilledBytes    int64
	JournalBytes    int64
	StallTime       time.Duration
	FreeBytes       int64
	ReserveBytes    int64
	Refused         int64
	WorkRefused     int64
	WorkWaiting     string
	Memory          struct {
		Memtables int64
		Known     int64
		Chunks    int64
		Indexes   int64
		Pending   int64
	}
	OpenFiles       int
	MappedFiles     int
	ReleaseFailures int64
	ScrubbedBytes   int64
	Scrubs          int64
	LastScrub       time.Time
	Damaged         int64
	PinnedVersion   uint64
	PinnedBy        string
	PinnedFor       time.Duration
	PinnedBytes     int64
	PinnedMemory    int64
	OldKeyBytes     int64
}

// addTo reports what was counted since Open.
func (c *counters) addTo(m *Metrics) {
	m.Flushes, m.FlushedBytes = c.flushes.load()
	m.Compactions, m.CompactedBytes = c.compactions.load()
	m.Collections, m.CollectedBytes = c.collections.load()
	m.Spills, m.SpilledBytes = c.spills.load()
	m.Refused = c.refusedCommits.Load()
	m.StallTime = time.Duration(c.stalled.Load())
}

// addTo reports what was done since Open, and when a pass ended last.
func (s *scrubber) addTo(m *Metrics) {
	m.ScrubbedBytes, m.Scrubs, m.Damaged = s.bytes.Load(), s.passes.Load(), s.damaged.Load()
	if at := s.ended.Load(); at != 0 {
		m.LastScrub = time.UnixMilli(at)
	}
}

func (c *counted) load() (times, bytes int64) { return c.times.Load(), c.bytes.Load() }

// addJournal reports what is in the journal and not yet in runs.
func (m *Metrics) addJournal(segments []journal.SegmentInfo) {
	for _, s := range segments {
		m.Segments++
		m.SegmentBytes += s.Offset
		m.LiveBytes += s.Offset
	}
}

// addView reports what a View holds at some time, in Unix milliseconds.
func (m *Metrics) addView(v *view.View, o *policy.Options, now uint64) {
	for _, t := range v.Tables {
		m.Memtables++
		m.MemtableEntries += int64(t.Len())
		m.MemtableBytes += t.Bytes()
	}
	for _, r := range v.Runs {
		m.Memory.Indexes += r.FilterBytes() + r.IndexBytes()
	}
	m.OldKeyBytes = int64(v.Layout.OldBytes())
	for _, r := range v.Layout.Runs() {
		m.Runs++
		m.RunEntries += int64(r.Entries)
		m.RunBytes += int64(r.FileBytes())
		for _, x := range r.Expiry {
			if x.At <= now {
				m.ExpiredBytes += int64(x.Bytes)
			}
		}
	}
	for _, f := range v.Segments.Files {
		if f.Moved != nil {
			m.ForwardingBytes += f.Moved.Size()
			m.Memory.Indexes += f.Moved.MemoryBytes()
		}
	}
	for _, s := range v.Layout.Segments() {
		m.Memory.Indexes += s.DeadMemory()
		if s.State().Status != layout.Live {
			continue
		}
		m.Segments++
		m.SegmentBytes += int64(s.FileBytes)
		m.DeadBytes += int64(s.DeadBytes())
	}
	runs, values := v.LiveBytes(o, now)
	m.LiveBytes += runs + values
}
