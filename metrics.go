package brock

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/report"
)

// Metrics is a snapshot of what one open store has done since Open, and what it
// holds now. The tag of a field says how Each and EachHistogram pass it on: under which name, as a
// counter, gauge or histogram, and what it is; By is bytes.
type Metrics struct {
	Reads     int64 `counter:"reads" help:"Point reads."`
	Iterators int64 `counter:"iterators" help:"Iterators made."`
	Commits   int64 `counter:"commits" help:"Transactions, batches and writer groups written."`
	Entries   int64 `counter:"committed_entries" help:"Entries that commits wrote."`
	Bytes     int64 `counter:"committed" unit:"By" help:"Records that commits wrote: keys, values as stored, and 4 to 40 bytes an entry."`
	Conflicts int64 `counter:"conflicts" help:"Commits refused because of conflicts."`
	Retries   int64 `counter:"retries" help:"Runs of an Update after the first."`

	CompressedFrom int64 `counter:"compression_in" unit:"By" help:"Values that were compressed, as they came."`
	CompressedTo   int64 `counter:"compression_out" unit:"By" help:"Values that were compressed, as they are stored."`

	Leaked        int64         `counter:"leaked_transactions" help:"Transactions never discarded, found by the garbage collector."`
	Stopped       bool          `gauge:"stopped" help:"1 once a write or sync has failed so that the store takes no more writes."` // see DB.Err
	OpenTime      time.Duration `gauge:"open_time" unit:"s" help:"Time that Open took, with the recovery, once it had the lock."`
	LastBackup    time.Time     `gauge:"last_backup_timestamp" unit:"s" help:"When a backup or checkpoint last ended well since Open, by the clock of the system; 0 = never."`
	EventsDropped int64         `counter:"dropped_events" help:"Calls of Events and Logger that were not made, as earlier ones took long."`

	ReadLatency   Histogram `histogram:"read_latency" unit:"s" help:"Time of one in 256 point reads of transactions."`
	CommitLatency Histogram `histogram:"commit_latency" unit:"s" help:"Time from the call of Commit to its return."`
	SyncLatency   Histogram `histogram:"sync_latency" unit:"s" help:"Time of syncs of the journal."`

	Tree TreeMetrics
}

// TreeMetrics describes the engine below the API.
type TreeMetrics = report.Tree

// FileInfo describes a file of the store, as Files lists them.
type FileInfo = report.File

// MemoryBytes returns the sum of what Tree.Memory says. The process takes more: what the program
// holds and what open transactions write, and up to 32 MB for the Go runtime, garbage of
// its heap and the buffers of background work.
func (m *Metrics) MemoryBytes() int64 {
	t := &m.Tree.Memory
	return t.Memtables + t.Known + t.Chunks + t.Indexes + t.Pending
}

// WriteAmp returns the bytes written to files per byte of the records committed.
func (m *Metrics) WriteAmp() float64 {
	t := &m.Tree
	return ratio(t.JournalBytes+t.FlushedBytes+t.CompactedBytes+t.CollectedBytes+t.SpilledBytes, m.Bytes)
}

// SpaceAmp returns the bytes in files per byte that entries still need.
func (m *Metrics) SpaceAmp() float64 {
	return ratio(m.Tree.RunBytes+m.Tree.SegmentBytes+m.Tree.ForwardingBytes, m.Tree.LiveBytes)
}

func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// String returns a report for people: a line for each metric and histogram that is not zero, under
// the name that Each and EachHistogram have for it. docs/metrics.md says what they are.
func (m Metrics) String() string {
	var b strings.Builder
	m.eachField(func(f field) {
		switch {
		case f.value.IsZero():
		case f.unit == "By":
			fmt.Fprintf(&b, "%-21s %s\n", f.name, sizeString(f.value.Int()))
		case f.value.CanFloat():
			fmt.Fprintf(&b, "%-21s %.2f\n", f.name, f.value.Float())
		default:
			fmt.Fprintf(&b, "%-21s %v\n", f.name, f.value)
		}
	})
	return b.String()
}

func sizeString(n int64) string {
	const unit = 1000
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	f, i := float64(n)/unit, 0
	for f >= unit && i < 4 {
		f, i = f/unit, i+1
	}
	return fmt.Sprintf("%.1f %cB", f, "kMGTP"[i])
}

// Histogram counts durations in buckets that double: bucket i holds those of at
// least 2^(i-1) and less than 2^i nanoseconds.
type Histogram struct {
	Count   int64
	Sum     time.Duration
	Buckets [48]int64
}

// Quantile returns an upper bound of the q-quantile of the durations, at most twice
// the true one. q is from 0 to 1.
func (h *Histogram) Quantile(q float64) time.Duration {
	var bound time.Duration
	rank := int64(q * float64(h.Count))
	for i, n := range h.Buckets {
		if n > 0 && rank >= 0 {
			bound = 1 << i
		}
		rank -= n
	}
	return bound
}

// String returns count, mean and the usual quantiles.
func (h Histogram) String() string {
	if h.Count == 0 {
		return "none measured"
	}
	mean := h.Sum / time.Duration(h.Count)
	return fmt.Sprintf("%d measured, mean %v, p50 < %v, p99 < %v, all < %v", h.Count, mean, h.Quantile(0.5), h.Quantile(0.99), h.Quantile(1))
}

// histogram is a Histogram that many goroutines add to.
type histogram struct {
	sum     atomic.Int64     // of all durations, in nanoseconds
	buckets [48]atomic.Int64 // as in Histogram
}

func (h *histogram) addDuration(d time.Duration) {
	d = max(d, 0)
	h.sum.Add(int64(d))
	h.buckets[min(bits.Len64(uint64(d)), len(h.buckets)-1)].Add(1)
}

func (h *histogram) copyCounts() Histogram {
	s := Histogram{Sum: time.Duration(h.sum.Load())}
	// Not of one moment, as a lock would slow all readers down. Count is the sum of the buckets, so
	// these two agree at least.
	for i := range h.buckets {
		s.Buckets[i] = h.buckets[i].Load()
		s.Count += s.Buckets[i]
	}
	return s
}

// stripes is the number of copies of the read counters: readers on different cores rarely
// use one cache line.
const stripes = 16

// counters are what the root counts itself. Transactions count their reads
// privately and add them here once, when they end.
type counters struct {
	reads                   *readCounters // apart, as the tree must not refer to the DB
	commits, entries, bytes atomic.Int64  // of commits that have written something
	conflicts, retries      atomic.Int64  // commits that were refused; runs of Update after the first
	read, commit            histogram     // of one in 256 gets; of each commit, with its waits
	sync                    *histogram    // apart, as the commit leader must not refer to the DB; nil if there is none
}

// readCounters count point reads and iterators.
type readCounters [stripes]struct {
	gets, iterators atomic.Int64
	_               [48]byte // fills the cache line of 64 bytes
}

// addReads adds to the stripe that a random number selects.
func (c *counters) addReads(gets, iterators int64, random uint32) {
	s := &c.reads[random%stripes]
	s.gets.Add(gets)
	// Most transactions have none, and an atomic add is not free.
	if iterators > 0 {
		s.iterators.Add(iterators)
	}
}

// addCommit counts a commit that has ended.
func (c *counters) addCommit(took time.Duration, err error, entries, bytes int64) {
	switch {
	case err == nil:
		c.commit.addDuration(took)
		c.commits.Add(1)
		c.entries.Add(entries)
		c.bytes.Add(bytes)
	case errors.Is(err, ErrConflict):
		c.conflicts.Add(1)
	}
}

// copyInto copies the counters into m.
func (c *counters) copyInto(m *Metrics) {
	if c.reads != nil { // nil in a DB that was not opened
		for i := range c.reads {
			m.Reads += c.reads[i].gets.Load()
			m.Iterators += c.reads[i].iterators.Load()
		}
	}
	m.Commits, m.Entries, m.Bytes = c.commits.Load(), c.entries.Load(), c.bytes.Load()
	m.Conflicts, m.Retries = c.conflicts.Load(), c.retries.Load()
	m.ReadLatency, m.CommitLatency = c.read.copyCounts(), c.commit.copyCounts()
	if c.sync != nil {
		m.SyncLatency = c.sync.copyCounts()
	}
}
