package report

import "time"

// Tree describes the engine below the API: what it holds now, what was done since Open, and the
// memory that it takes. The tags of a field say what the field is for those who pass metrics on, see
// brock.Metrics: it is a counter or a gauge of that name, By is bytes, and help says what it is.
type Tree struct {
	Version         uint64 `gauge:"version" help:"Newest version committed."`
	Memtables       int    `gauge:"memtables" help:"Memtables."`
	MemtableEntries int64  `gauge:"memtable_entries" help:"Entries in memtables."`
	MemtableBytes   int64  `gauge:"memtable" unit:"By" help:"Memory of memtables."`
	Runs            int    `gauge:"runs" help:"Runs."`
	RunEntries      int64  `gauge:"run_entries" help:"Entries in runs."`
	RunBytes        int64  `gauge:"run" unit:"By" help:"Files of runs."`
	Segments        int    `gauge:"segments" help:"Journal and value segments."`
	SegmentBytes    int64  `gauge:"segment" unit:"By" help:"Journal and value segments, with zeros that are written ahead of the journal."`
	// LiveBytes is the part of SegmentBytes and RunBytes that entries still need. It is estimated
	// by samples of what was replaced since Open: all else counts as live until a compaction
	// finds it.
	LiveBytes       int64         `gauge:"live" unit:"By" help:"The part of files that entries need."`
	DeadBytes       int64         `gauge:"dead" unit:"By" help:"The part of segments that is known to be needed by no entry."`
	ExpiredBytes    int64         `gauge:"expired" unit:"By" help:"The part of live bytes that has expired and waits for a compaction."`
	ExpiryWait      time.Duration `gauge:"expiry_wait" unit:"s" help:"Time until the store looks for expired entries; 0 = nothing expires."`
	ForwardingBytes int64         `gauge:"forwarding" unit:"By" help:"Forwarding tables."`
	JumpedBytes     int64         `gauge:"jumped" unit:"By" help:"Values that scans have jumped to and that were not put in key order yet."`
	FreeBytes       int64         `gauge:"disk_free" unit:"By" help:"Left on the disk or below DiskLimit when last looked at; -1 = not known."`
	ReserveBytes    int64         `gauge:"disk_reserve" unit:"By" help:"Kept of the free bytes for deletes and for work that frees disk space."`
	// WorkWaiting is the background work that waits to be tried again, and why; "" = none.
	WorkWaiting string `gauge:"waiting_work" help:"1 while background work waits to be tried again."`
	// PinnedBy is where the oldest transaction began: function, file and line.
	PinnedBy      string        `gauge:"pinned" help:"1 while an open transaction or Snapshot keeps replaced data."`
	PinnedVersion uint64        `gauge:"pinned_version" help:"Oldest version that a transaction still reads; 0 = none."`
	PinnedFor     time.Duration `gauge:"pinned_time" unit:"s" help:"Time since something that the oldest transaction reads was replaced; 0 = nothing was."`
	PinnedBytes   int64         `gauge:"pinned_files" unit:"By" help:"Files that only open transactions need."`
	OldKeyBytes   int64         `gauge:"old_key" unit:"By" help:"Runs and segments under older data keys than the current one, or plain in an encrypted store."`
	PinnedMemory  int64         `gauge:"pinned_memory" unit:"By" help:"Memtables that only open transactions need."`

	// The change feed:
	FeedBytes        int64         `gauge:"feed" unit:"By" help:"Files of the history that DB.Watch can read; entries may need them, too."`
	FeedAge          time.Duration `gauge:"feed_age" unit:"s" help:"Age of the oldest history that DB.Watch can read, in files that were flushed; 0 = there is none."`
	Watches          int           `gauge:"watches" help:"Open Watches."`
	WatchBehind      uint64        `gauge:"watch_behind" help:"Commits that the slowest open Watch has not read."`
	WatchUnreadBytes int64         `gauge:"watch_unread" unit:"By" help:"Files that the slowest open Watch has not read."`
	WatchesRefused   int64         `counter:"refused_watches" help:"Watches that ended with ErrVersionGone: what they asked for next was not kept."`

	JournalBytes    int64         `counter:"journal" unit:"By" help:"Written to the journal."` // records, frames, headers, and zeros ahead of them
	Flushes         int64         `counter:"flushes" help:"Flushes."`
	FlushedBytes    int64         `counter:"flushed" unit:"By" help:"Written by flushes."`
	Compactions     int64         `counter:"compactions" help:"Compactions."`
	CompactedBytes  int64         `counter:"compacted" unit:"By" help:"Written by compactions."`
	Collections     int64         `counter:"collections" help:"Collections of garbage."`
	CollectedBytes  int64         `counter:"collected" unit:"By" help:"Written by collections."`
	Spills          int64         `counter:"spills" help:"Transactions larger than their memory that were committed."`
	SpilledBytes    int64         `counter:"spilled" unit:"By" help:"Written by spills."`
	StallTime       time.Duration `counter:"stall" unit:"s" help:"Time for which writers were throttled."`
	Refused         int64         `counter:"refused_commits" help:"Commits refused because the disk is full."`
	WorkRefused     int64         `counter:"refused_work" help:"Runs of background work that the system refused; they are tried again."`
	ReleaseFailures int64         `counter:"release_failures" help:"Files that could not be closed or removed; the next Open removes them."`
	Scrubs          int64         `counter:"scrubs" help:"Times that all files were verified at rest."`
	ScrubbedBytes   int64         `counter:"scrubbed" unit:"By" help:"Verified at rest."` // see Maintenance.ScrubEvery
	LastScrub       time.Time     `gauge:"last_scrub_timestamp" unit:"s" help:"When all files were last verified at rest; 0 = never."`
	Damaged         int64         `counter:"damaged_places" help:"Damaged places that were found at rest."`

	// Memory says what takes the memory that Options.MemoryLimit bounds. Mapped files are not in
	// it: the system takes their memory back as it needs it.
	Memory struct {
		Memtables int64 `gauge:"memory_memtables" unit:"By" help:"Memtables, those that a transaction still reads included."`
		Known     int64 `gauge:"memory_known" unit:"By" help:"Notes which pages and values are in memory and were verified."`
		Chunks    int64 `gauge:"memory_chunks" unit:"By" help:"Cached parts of runs that are encrypted, or not mapped."`
		Indexes   int64 `gauge:"memory_indexes" unit:"By" help:"What is known of runs and segments: their chunks, dead records, and filters and forwarding tables that are encrypted, or not mapped."`
		Pending   int64 `gauge:"memory_pending" unit:"By" help:"Keys and values of calls that have not returned, and up to 8 MiB kept for the next large one."`
	}
	OpenFiles   int `gauge:"open_files" help:"File descriptors in use."` // see Tuning.OpenFiles
	MappedFiles int `gauge:"mapped_files" help:"Files that are read through a mapping."`
}
