package brock

import "time"

// MetricKind says how the value of a metric moves.
type MetricKind uint8

// The kinds of metrics.
const (
	CounterMetric MetricKind = 1 // begins at 0 at Open, and only grows
	GaugeMetric   MetricKind = 2 // goes up and down
)

// Each calls fn with each metric but the histograms: all fields of m as numbers, and what
// follows from them, for those who pass metrics on. Calls come in the same order each time.
//
// A name has small letters and underscores. Names, units and kinds stay as they are in later
// releases, which may add some; docs/metrics.md lists them. The unit is "By" for bytes, "s"
// for seconds, and "" for a number, as in OpenTelemetry. help is one sentence.
//
// Text becomes a number: waiting_work and pinned are 1 while WorkWaiting and PinnedBy say
// something, else 0. A time is in seconds since 1970, 0 for none. A nil fn is not called.
func (m *Metrics) Each(fn func(name, unit, help string, kind MetricKind, v float64)) {
	if fn == nil {
		return
	}
	m.eachOfCalls(fn)
	m.Tree.eachOfState(fn)
	m.Tree.eachOfWork(fn)
	m.Tree.eachOfMemory(fn)
	fn("memory", "By", "Memory that Options.MemoryLimit bounds.", GaugeMetric, float64(m.MemoryBytes()))
	fn("write_amplification", "", "Bytes written to files per byte of the records committed, since Open.", GaugeMetric, m.WriteAmp())
	fn("space_amplification", "", "Bytes in files per byte that entries still need.", GaugeMetric, m.SpaceAmp())
}

// EachHistogram calls fn with each histogram. Names and units are as for Each. h belongs to
// m.
func (m *Metrics) EachHistogram(fn func(name, unit, help string, h *Histogram)) {
	if fn == nil {
		return
	}
	fn("read_latency", "s", "Time of one in 256 point reads of transactions.", &m.ReadLatency)
	fn("commit_latency", "s", "Time from the call of Commit to its return.", &m.CommitLatency)
	fn("sync_latency", "s", "Time of syncs of the journal.", &m.SyncLatency)
}

// eachMetric is the function that Each is given.
type eachMetric = func(name, unit, help string, kind MetricKind, v float64)

func (m *Metrics) eachOfCalls(fn eachMetric) {
	fn("reads", "", "Point reads.", CounterMetric, float64(m.Reads))
	fn("iterators", "", "Iterators made.", CounterMetric, float64(m.Iterators))
	fn("commits", "", "Transactions, batches and writer groups written.", CounterMetric, float64(m.Commits))
	fn("committed_entries", "", "Entries that commits wrote.", CounterMetric, float64(m.Entries))
	fn("committed", "By", "Records that commits wrote.", CounterMetric, float64(m.Bytes))
	fn("conflicts", "", "Commits refused because of conflicts.", CounterMetric, float64(m.Conflicts))
	fn("retries", "", "Runs of an Update after the first.", CounterMetric, float64(m.Retries))
	fn("compression_in", "By", "Values that were compressed, as they came.", CounterMetric, float64(m.CompressedFrom))
	fn("compression_out", "By", "Values that were compressed, as they are stored.", CounterMetric, float64(m.CompressedTo))
	fn("leaked_transactions", "", "Transactions never discarded, found by the garbage collector.", CounterMetric, float64(m.Leaked))
	fn("stopped", "", "1 once a write or sync has failed so that the store takes no more writes.", GaugeMetric, oneIf(m.Stopped))
	fn("open_time", "s", "Time that Open took, with the recovery.", GaugeMetric, m.OpenTime.Seconds())
	fn("last_backup_timestamp", "s", "When a backup or checkpoint last ended well since Open; 0 = never.", GaugeMetric, unixSeconds(m.LastBackup))
	fn("dropped_events", "", "Calls of Events and Logger that were not made, as earlier ones took long.", CounterMetric, float64(m.EventsDropped))
}

// eachOfState calls fn for what the store holds now, and what readers keep.
func (t *TreeMetrics) eachOfState(fn eachMetric) {
	fn("version", "", "Newest version committed.", GaugeMetric, float64(t.Version))
	fn("memtables", "", "Memtables.", GaugeMetric, float64(t.Memtables))
	fn("memtable_entries", "", "Entries in memtables.", GaugeMetric, float64(t.MemtableEntries))
	fn("memtable", "By", "Memory of memtables.", GaugeMetric, float64(t.MemtableBytes))
	fn("runs", "", "Runs.", GaugeMetric, float64(t.Runs))
	fn("run_entries", "", "Entries in runs.", GaugeMetric, float64(t.RunEntries))
	fn("run", "By", "Files of runs.", GaugeMetric, float64(t.RunBytes))
	fn("segments", "", "Journal and value segments.", GaugeMetric, float64(t.Segments))
	fn("segment", "By", "Journal and value segments.", GaugeMetric, float64(t.SegmentBytes))
	fn("live", "By", "The part of files that entries need.", GaugeMetric, float64(t.LiveBytes))
	fn("dead", "By", "The part of segments that no entry needs.", GaugeMetric, float64(t.DeadBytes))
	fn("expired", "By", "The part of live bytes that has expired.", GaugeMetric, float64(t.ExpiredBytes))
	fn("expiry_wait", "s", "Time until the store looks for expired entries; 0 = nothing expires.", GaugeMetric, t.ExpiryWait.Seconds())
	fn("forwarding", "By", "Forwarding tables.", GaugeMetric, float64(t.ForwardingBytes))
	fn("jumped", "By", "Values that scans have jumped to and that were not put in key order yet.", GaugeMetric, float64(t.JumpedBytes))
	fn("disk_free", "By", "Left on the disk or below DiskLimit; -1 = not known.", GaugeMetric, float64(t.FreeBytes))
	fn("disk_reserve", "By", "Kept of the free bytes for deletes and for work that frees disk space.", GaugeMetric, float64(t.ReserveBytes))
	fn("waiting_work", "", "1 while background work waits to be tried again.", GaugeMetric, oneIf(t.WorkWaiting != ""))
	fn("pinned", "", "1 while an open transaction keeps replaced data.", GaugeMetric, oneIf(t.PinnedBy != ""))
	fn("pinned_version", "", "Oldest version that a transaction still reads; 0 = none.", GaugeMetric, float64(t.PinnedVersion))
	fn("pinned_time", "s", "Time since something that the oldest transaction reads was replaced.", GaugeMetric, t.PinnedFor.Seconds())
	fn("pinned_files", "By", "Files that only open transactions need.", GaugeMetric, float64(t.PinnedBytes))
	fn("old_key", "By", "Runs and segments under older data keys than the current one.", GaugeMetric, float64(t.OldKeyBytes))
	fn("pinned_memory", "By", "Memtables that only open transactions need.", GaugeMetric, float64(t.PinnedMemory))
}

// eachOfWork has what was done in the background.
func (t *TreeMetrics) eachOfWork(fn eachMetric) {
	fn("journal", "By", "Written to the journal.", CounterMetric, float64(t.JournalBytes))
	fn("flushes", "", "Flushes.", CounterMetric, float64(t.Flushes))
	fn("flushed", "By", "Written by flushes.", CounterMetric, float64(t.FlushedBytes))
	fn("compactions", "", "Compactions.", CounterMetric, float64(t.Compactions))
	fn("compacted", "By", "Written by compactions.", CounterMetric, float64(t.CompactedBytes))
	fn("collections", "", "Collections of garbage.", CounterMetric, float64(t.Collections))
	fn("collected", "By", "Written by collections.", CounterMetric, float64(t.CollectedBytes))
	fn("spills", "", "Transactions larger than their memory that were committed.", CounterMetric, float64(t.Spills))
	fn("spilled", "By", "Written by spills.", CounterMetric, float64(t.SpilledBytes))
	fn("stall", "s", "Time for which writers were throttled.", CounterMetric, t.StallTime.Seconds())
	fn("refused_commits", "", "Commits refused because the disk is full.", CounterMetric, float64(t.Refused))
	fn("refused_work", "", "Runs of background work that the system refused.", CounterMetric, float64(t.WorkRefused))
	fn("release_failures", "", "Files that could not be closed or removed.", CounterMetric, float64(t.ReleaseFailures))
	fn("scrubs", "", "Times that all files were verified at rest.", CounterMetric, float64(t.Scrubs))
	fn("scrubbed", "By", "Verified at rest.", CounterMetric, float64(t.ScrubbedBytes))
	fn("last_scrub_timestamp", "s", "When all files were last verified at rest; 0 = never.", GaugeMetric, unixSeconds(t.LastScrub))
	fn("damaged_places", "", "Damaged places that were found at rest.", CounterMetric, float64(t.Damaged))
}

func (t *TreeMetrics) eachOfMemory(fn eachMetric) {
	m := &t.Memory
	fn("memory_memtables", "By", "Memtables, those that a transaction still reads included.", GaugeMetric, float64(m.Memtables))
	fn("memory_known", "By", "Notes which pages and values are in memory and were verified.", GaugeMetric, float64(m.Known))
	fn("memory_chunks", "By", "Cached parts of runs that are encrypted, or not mapped.", GaugeMetric, float64(m.Chunks))
	fn("memory_indexes", "By", "What is known of runs and segments, with filters and dead records.", GaugeMetric, float64(m.Indexes))
	fn("memory_pending", "By", "Keys and values of calls that have not returned.", GaugeMetric, float64(m.Pending))
	fn("open_files", "", "File descriptors in use.", GaugeMetric, float64(t.OpenFiles))
	fn("mapped_files", "", "Files that are read through a mapping.", GaugeMetric, float64(t.MappedFiles))
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func unixSeconds(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return float64(at.UnixMilli()) / 1e3
}
