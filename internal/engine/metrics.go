package engine

import (
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/vlog/journal"
	"github.com/brockdb/brock/report"
)

// Work is a finished piece of background work.
type Work struct {
	report.Work
	Kind    string // "flush", "compaction", "collection" or "spill"
	Dropped uint64 // entries that were not written again
}

// counters are what the engine counts since Open. A piece of work counts when it has succeeded.
type counters struct {
	flushes, compactions, collections, spills counted

	journalBytes   atomic.Int64 // bytes of the payloads that were committed
	stalled        atomic.Int64 // for how many nanoseconds writers were throttled
	refusedCommits atomic.Int64 // commits refused because the disk is full
}

// counted counts pieces of work, and the bytes that they wrote.
type counted struct{ times, bytes atomic.Int64 }

func (c *counted) load() (times, bytes int64) { return c.times.Load(), c.bytes.Load() }

// add counts a piece of work that wrote so many bytes.
func (c *counters) add(kind string, bytes int64) {
	of := map[string]*counted{
		"flush": &c.flushes, "compaction": &c.compactions, "collection": &c.collections, "spill": &c.spills,
	}[kind]
	of.times.Add(1)
	of.bytes.Add(bytes)
}

// addTo reports what was counted since Open.
func (c *counters) addTo(m *report.Tree) {
	m.Flushes, m.FlushedBytes = c.flushes.load()
	m.Compactions, m.CompactedBytes = c.compactions.load()
	m.Collections, m.CollectedBytes = c.collections.load()
	m.Spills, m.SpilledBytes = c.spills.load()
	m.Refused = c.refusedCommits.Load()
	m.StallTime = time.Duration(c.stalled.Load())
}

// addJournal adds to m what is in the journal and not yet in runs.
func addJournal(m *report.Tree, segments []journal.SegmentInfo) {
	for _, s := range segments {
		m.Segments++
		m.SegmentBytes += s.Offset
		m.LiveBytes += s.Offset
	}
}

// addView adds to m what a View holds at some time, in Unix milliseconds.
func addView(m *report.Tree, v *view.View, o *policy.Options, now uint64) {
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
		// The file of a relocated segment is gone. Only its forwarding table is left, counted
		// above.
		if s.State().Status != layout.Live {
			continue
		}
		m.Segments++
		m.SegmentBytes += int64(s.FileBytes)
		m.DeadBytes += int64(s.DeadBytes())
	}
	runs, values := v.EstimateLive(o, now)
	m.LiveBytes += runs + values
}
