package engine

import (
	"sync/atomic"
	"time"
)

// Work is a finished piece of background work.
type Work struct {
	WorkInfo
	Kind    string // "flush", "compaction", "collection" or "spill"
	Dropped uint64 // entries that were not written again
}

// WorkInfo is the part of Work that users see. The root converts it to its own WorkInfo.
type WorkInfo struct {
	Reason            string
	EntriesIn, Runs   int64 // entries read; runs compacted
	Segments          int64 // whose live values were moved
	BytesIn, BytesOut int64 // read, written
	Took              time.Duration
	Err               error // why it was not finished
}

// Stall is the begin or the end of a time in which writers are throttled.
type Stall struct {
	Begin  bool
	Reason string        // what lags behind
	Took   time.Duration // at its end: how long it lasted
}

// DiskSpace says that writes are refused because the disk is full, or that they no
// longer are.
type DiskSpace struct {
	Full    bool
	Left    int64 // bytes, by the disk or the limit; -1 = not known
	Reserve int64 // bytes that are kept for deletes and for work that frees space
	Err     error // what was refused first; nil when it is over
}

// counters are what the engine counts since Open. A piece of work counts when it has succeeded.
type counters struct {
	flushes, compactions, collections, spills counted

	journalBytes   atomic.Int64
	stalled        atomic.Int64 // for how many nanoseconds writers were throttled
	refusedCommits atomic.Int64 // commits refused because the disk is full
}

// counted counts pieces of work, and the bytes that they wrote.
type counted struct{ times, bytes atomic.Int64 }

// add counts a piece of work that wrote so many bytes.
func (c *counters) add(kind string, bytes int64) {
	of := map[string]*counted{
		"flush": &c.flushes, "compaction": &c.compactions, "collection": &c.collections, "spill": &c.spills,
	}[kind]
	of.times.Add(1)
	of.bytes.Add(bytes)
}
