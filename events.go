package brock

import (
	"time"
)

// Events are calls about what happens in the background. They come from the
// goroutine that does the work, so they should return soon, and must neither
// write to the store nor close it. Nil fields are skipped.
type Events struct {
	Flush           func(WorkInfo)         // a memtable was written out, or could not be
	Compaction      func(WorkInfo)         // runs were merged, or could not be
	Collection      func(WorkInfo)         // live values were moved out of files with garbage, or could not be
	Spill           func(WorkInfo)         // a transaction larger than its memory was committed, or could not be
	WriteStall      func(StallInfo)        // writers are slowed, and no longer
	Space           func(SpaceInfo)        // writes are refused for want of space, and no longer
	Corruption      func(*CorruptionError) // damage met by a background job
	BackgroundError func(error)            // writes have stopped, and why
	LongReader      func(ReaderInfo)       // a transaction has kept what was replaced for more than a minute; again when that time has doubled
}

// WorkInfo describes a finished piece of background work.
type WorkInfo struct {
	Reason            string // why it was done
	EntriesIn, Runs   int64  // entries read; runs written
	Segments          int64  // files whose live values were moved
	BytesIn, BytesOut int64
	Took              time.Duration
	Err               error // nil when it succeeded
}

// ReaderInfo describes the oldest open transaction, and what it and others keep
// from being removed. Metrics has the same at any time.
type ReaderInfo struct {
	Version     uint64        // that it reads
	Begun       string        // where: function, file and line
	For         time.Duration // since something that it reads was replaced
	FileBytes   int64         // in files that only open transactions need
	MemoryBytes int64         // in memtables that only open transactions need
}

// StallInfo describes the begin or the end of a time in which writers are slowed.
type StallInfo struct {
	Begin  bool
	Reason string
	Took   time.Duration // at its end: how long it lasted
}

// SpaceInfo says that writes are refused because the disk is full, or
// Options.DiskLimit is reached, or that they are taken again.
type SpaceInfo struct {
	Full    bool
	Left    int64 // bytes, by the disk or the limit, whichever leaves less; -1 = not known
	Reserve int64 // of them, kept for deletes and for work that frees space
	Err     error // what was refused first; nil when it is over
}
