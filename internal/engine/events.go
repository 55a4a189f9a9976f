package engine

import (
	"sync/atomic"

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

// add counts a piece of work that wrote so many bytes.
func (c *counters) add(kind string, bytes int64) {
	of := map[string]*counted{
		"flush": &c.flushes, "compaction": &c.compactions, "collection": &c.collections, "spill": &c.spills,
	}[kind]
	of.times.Add(1)
	of.bytes.Add(bytes)
}
