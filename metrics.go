package brock

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"sync/atomic"
	"time"
)

// Metrics is a snapshot of what one open store has done since Open, and what it
// holds now.
type Metrics struct {
	Reads     int64 // point reads
	Iterators int64 // iterators made
	Commits   int64 // transactions, batches and writer groups written
	Entries   int64 // entries that these commits wrote
	Bytes     int64 // bytes of their records: keys, values as stored, and 4 to 40 bytes an entry
	Conflicts int64 // commits refused
	Retries   int64 // runs of an Update after the first

	CompressedFrom int64 // bytes of values that were compressed
	CompressedTo   int64 // bytes that are stored of them

	Leaked        int64 // transactions never discarded, found by the garbage collector
	EventsDropped int64 // calls of Events and Logger that were not made, as earlier ones took long

	Stopped    bool          // the store takes no more writes, see DB.Err
	OpenTime   time.Duration // how long Open took, with the recovery, once it had the lock
	LastBackup time.Time     // when a Backup or Checkpoint last ended well since Open, by the clock of the system; zero = never

	ReadLatency   Histogram // of one in 256 point reads of transactions
	CommitLatency Histogram // from the call of Commit to its return
	SyncLatency   Histogram // of syncs of the journal

	Tree TreeMetrics
}

// TreeMetrics describes the engine below the API.
type TreeMetrics struct {
	Version         uint64 // newest committed
	Memtables       int
	MemtableEntries int64
	MemtableBytes   int64
	Runs            int
	RunEntries      int64
	RunBytes        int64 // in the files of the runs
	Segments        int
	SegmentBytes    int64         // in journal and value segments, with zeros that are written ahead of the journal
	LiveBytes       int64         // the part of SegmentBytes and RunBytes that entries still need; estimated by samples of what was replaced since Open, all else counts as live until a compaction finds it
	DeadBytes       int64         // the part of SegmentBytes that is known to be needed by no entry
	ExpiredBytes    int64         // the part of LiveBytes that has expired and waits for a compaction
	ExpiryWait      time.Duration // time until the store looks for expired entries; 0 = nothing expires
	Flushes         int64
	FlushedBytes    int64 // written by flushes
	Compactions     int64
	CompactedBytes  int64 // written by compactions
	Collections     int64
	CollectedBytes  int64         // written by collections
	JumpedBytes     int64         // bytes of values that scans have jumped to and that were not put in key order yet
	ForwardingBytes int64         // in forwarding table files
	Spills          int64         // transactions larger than their memory that were committed
	SpilledBytes    int64         // written by spills
	JournalBytes    int64         // written to the journal: records, frames, headers, and zeros ahead of them
	StallTime       time.Duration // for how long writers were throttled, in sum
	FreeBytes       int64         // bytes left on the disk or below DiskLimit when last looked at; -1 = not known
	ReserveBytes    int64         // the part of FreeBytes that is kept for deletes and for work that frees disk space
	Refused         int64         // commits refused because the disk is full
	WorkRefused     int64         // runs of background work that the system refused; they are tried again
	WorkWaiting     string        // the background work that waits to be tried again, and why; "" = none
	// Memory says what takes the memory that Options.MemoryLimit bounds, in bytes. Mapped
	// files are not in it: the system takes their memory back as it needs it.
	Memory struct {
		Memtables int64 // bytes of memtables, including those that a transaction still reads
		Known     int64 // bytes that note which pages and values are in memory and were checked
		Chunks    int64 // cached parts of runs that are encrypted, or not mapped
		Indexes   int64 // what is known of runs and segments: about their chunks, and filters and forwarding tables that are encrypted, or not mapped, and which records are dead
		Pending   int64 // keys and values of calls such as DB.Set that have not returned, and up to 8 MiB kept for the next large one
	}
	OpenFiles       int           // file descriptors in use; see Tuning.OpenFiles
	MappedFiles     int           // files that are read through a mapping
	ReleaseFailures int64         // files that could not be closed or removed; the next Open removes them
	ScrubbedBytes   int64         // verified at rest since Open, see Maintenance.ScrubEvery
	Scrubs          int64         // times since Open that all files were verified so
	LastScrub       time.Time     // when that was last; zero = never
	Damaged         int64         // damaged places that were found so since Open
	PinnedVersion   uint64        // oldest version that a transaction still reads; 0 = none
	PinnedBy        string        // where that transaction began: function, file and line
	PinnedFor       time.Duration // since something that it reads was replaced; 0 = nothing was
	PinnedBytes     int64         // in files that only open transactions need
	PinnedMemory    int64         // in memtables that only open transactions need
	OldKeyBytes     int64         // of runs and segments that are under older data keys than the current one, or plain in an encrypted store
}

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

// String returns a report of about 20 lines for people.
func (m Metrics) String() string {
	var b strings.Builder
	t := &m.Tree
	fmt.Fprintf(&b, "version     %d\n", t.Version)
	fmt.Fprintf(&b, "reads       %d, iterators %d; %v\n", m.Reads, m.Iterators, m.ReadLatency)
	fmt.Fprintf(&b, "commits     %d with %d entries, %s; conflicts %d, retries %d\n", m.Commits, m.Entries, sizeString(m.Bytes), m.Conflicts, m.Retries)
	fmt.Fprintf(&b, "            %v\n", m.CommitLatency)
	if m.CompressedTo > 0 {
		fmt.Fprintf(&b, "compressed  %s to %s\n", sizeString(m.CompressedFrom), sizeString(m.CompressedTo))
	}
	fmt.Fprintf(&b, "syncs       %v\n", m.SyncLatency)
	fmt.Fprintf(&b, "memtables   %d with %d entries, %s\n", t.Memtables, t.MemtableEntries, sizeString(t.MemtableBytes))
	fmt.Fprintf(&b, "runs        %d with %d entries, %s\n", t.Runs, t.RunEntries, sizeString(t.RunBytes))
	fmt.Fprintf(&b, "segments    %d, %s, of it dead %s; expired %s\n", t.Segments, sizeString(t.SegmentBytes), sizeString(t.DeadBytes), sizeString(t.ExpiredBytes))
	fmt.Fprintf(&b, "written     journal %s, %d flushes %s, %d compactions %s\n", sizeString(t.JournalBytes), t.Flushes, sizeString(t.FlushedBytes), t.Compactions, sizeString(t.CompactedBytes))
	fmt.Fprintf(&b, "collected   %d times, %s; forwarding tables %s; scans have jumped to %s\n", t.Collections, sizeString(t.CollectedBytes), sizeString(t.ForwardingBytes), sizeString(t.JumpedBytes))
	fmt.Fprintf(&b, "spilled     %d transactions, %s\n", t.Spills, sizeString(t.SpilledBytes))
	fmt.Fprintf(&b, "memory      %s: memtables %s, known pages %s, chunks %s, indexes %s\n", sizeString(m.MemoryBytes()),
		sizeString(t.Memory.Memtables), sizeString(t.Memory.Known), sizeString(t.Memory.Chunks), sizeString(t.Memory.Indexes))
	fmt.Fprintf(&b, "files       %d open, %d mapped\n", t.OpenFiles, t.MappedFiles)
	fmt.Fprintf(&b, "amplified   writes %.2f, space %.2f\n", m.WriteAmp(), m.SpaceAmp())
	fmt.Fprintf(&b, "stalls      writers were throttled for %v\n", t.StallTime)
	if t.FreeBytes >= 0 {
		fmt.Fprintf(&b, "disk space  %s left, of it in reserve %s; commits refused %d\n", sizeString(t.FreeBytes), sizeString(t.ReserveBytes), t.Refused)
	}
	fmt.Fprintf(&b, "pinned      oldest version read %d, leaked transactions %d\n", t.PinnedVersion, m.Leaked)
	if m.EventsDropped > 0 {
		fmt.Fprintf(&b, "events      %d dropped\n", m.EventsDropped)
	}
	if t.PinnedFor > 0 {
		fmt.Fprintf(&b, "            %s in files, %s in memory, for %v by %s\n", sizeString(t.PinnedBytes), sizeString(t.PinnedMemory), t.PinnedFor.Round(time.Second), t.PinnedBy)
	}
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
	sum     atomic.Int64
	buckets [48]atomic.Int64
}

func (h *histogram) observe(d time.Duration) {
	d = max(d, 0)
	h.sum.Add(int64(d))
	h.buckets[min(bits.Len64(uint64(d)), len(h.buckets)-1)].Add(1)
}

func (h *histogram) snapshot() Histogram {
	s := Histogram{Sum: time.Duration(h.sum.Load())}
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
	commits, entries, bytes atomic.Int64
	conflicts, retries      atomic.Int64
	read, commit            histogram
	sync                    *histogram // apart, as the commit leader must not refer to the DB; nil if there is none
}

// readCounters count point reads and iterators.
type readCounters [stripes]struct {
	gets, iterators atomic.Int64
	_               [48]byte
}

// addReads adds to the stripe that a random number selects.
func (c *counters) addReads(gets, iterators int64, random uint32) {
	s := &c.reads[random%stripes]
	s.gets.Add(gets)
	if iterators > 0 {
		s.iterators.Add(iterators)
	}
}

// addCommit counts a commit that has ended.
func (c *counters) addCommit(took time.Duration, err error, entries, bytes int64) {
	switch {
	case err == nil:
		c.commit.observe(took)
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
	m.ReadLatency, m.CommitLatency = c.read.snapshot(), c.commit.snapshot()
	if c.sync != nil {
		m.SyncLatency = c.sync.snapshot()
	}
}
