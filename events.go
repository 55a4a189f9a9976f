package brock

import (
	"errors"
	"log/slog"
	"time"

	"github.com/brockdb/brock/internal/tree"
	"github.com/brockdb/brock/internal/view"
)

// Events are functions that a store calls when something happens in the background.
// The goroutine that does the work calls them, so they should return soon, and must
// neither write to the store nor close it. Nil fields are skipped.
type Events struct {
	Flush           func(WorkInfo)         // a memtable was written to files, or that failed
	Compaction      func(WorkInfo)         // runs were compacted, or that failed
	Collection      func(WorkInfo)         // live values were moved out of segments with garbage, or that failed
	Spill           func(WorkInfo)         // a transaction larger than its memory was committed, or that failed
	WriteStall      func(StallInfo)        // writers begin or cease to be throttled
	DiskSpace       func(DiskSpaceInfo)    // the disk is full and writes are refused, or no longer
	Corruption      func(*CorruptionError) // background work has found damaged data
	BackgroundError func(error)            // nothing is written any more, for this reason
	LongReader      func(ReaderInfo)       // a transaction has kept replaced data for more than a minute; called again each time that this time has doubled
}

// WorkInfo describes a finished piece of background work.
type WorkInfo struct {
	Reason            string        // why it was done
	EntriesIn, Runs   int64         // entries read; runs written
	Segments          int64         // segments whose live values were moved
	BytesIn, BytesOut int64         // bytes read and written
	Took              time.Duration // from begin to end
	Err               error         // nil if it succeeded
}

// ReaderInfo describes a long reader: the oldest open transaction, and the data that
// is kept only for open transactions. Metrics has the same at any time.
type ReaderInfo struct {
	Version     uint64        // the version that it reads
	Begun       string        // where it began: function, file and line
	For         time.Duration // time since data that it reads was first replaced
	FileBytes   int64         // in files that only open transactions need
	MemoryBytes int64         // in memtables that only open transactions need
}

// StallInfo describes the begin or the end of a time in which writers are throttled.
type StallInfo struct {
	Begin  bool          // true at the begin, false at the end
	Reason string        // why writers are throttled
	Took   time.Duration // at the end: how long it lasted
}

// DiskSpaceInfo says that writes are refused, because the disk is full or
// Options.DiskLimit is reached, or that they are accepted again.
type DiskSpaceInfo struct {
	Full    bool  // writes are refused
	Left    int64 // bytes left on the disk or below the limit, the smaller of both; -1 = not known
	Reserve int64 // bytes of Left that are kept for deletes and for work that frees disk space
	Err     error // the first refusal; nil if writes are accepted again
}

// reporter passes what happens in the background to Events and a logger.
type reporter struct {
	Events
	log *slog.Logger // never nil
}

// onWork passes finished background work to Events and Logger.
func (r *reporter) onWork(w tree.Work) {
	call := r.Compaction
	switch w.Kind {
	case "flush":
		call = r.Flush
	case "spill":
		call = r.Spill
	case "collection":
		call = r.Collection
	}
	if w.Segments > 0 { // unlike other work, this goes on with something else
		var c *CorruptionError
		if errors.As(w.Err, &c) && r.Corruption != nil {
			r.Corruption(c)
		}
	}
	if call != nil {
		call(WorkInfo(w.WorkInfo))
	}
	r.log.Debug(w.Kind, "reason", w.Reason, "entries", w.EntriesIn, "dropped", w.Dropped, "bytesOut", w.BytesOut, "took", w.Took)
}

// onLongReader passes on that a transaction keeps what was replaced.
func (r *reporter) onLongReader(h view.LongReader) {
	info := ReaderInfo(h)
	if call := r.LongReader; call != nil {
		call(info)
	}
	r.log.Warn("a transaction keeps what was replaced", "begun", info.Begun, "version", info.Version, "for", info.For, "files", info.FileBytes, "memory", info.MemoryBytes)
}

// onStall passes on that writers are throttled, or no longer.
func (r *reporter) onStall(s tree.Stall) {
	if call := r.WriteStall; call != nil {
		call(StallInfo(s))
	}
	if s.Begin {
		r.log.Warn("writers are throttled", "reason", s.Reason)
	} else {
		r.log.Warn("writers are no longer throttled", "reason", s.Reason, "took", s.Took)
	}
}

// onDiskSpace passes on that writes are refused because the disk is full, or no
// longer.
func (r *reporter) onDiskSpace(s tree.DiskSpace) {
	if call := r.DiskSpace; call != nil {
		call(DiskSpaceInfo(s))
	}
	if s.Full {
		r.log.Warn("disk full: writes are refused", "left", s.Left, "reserve", s.Reserve, "err", s.Err)
	} else {
		r.log.Warn("the disk is no longer full", "left", s.Left, "reserve", s.Reserve)
	}
}

// onFailure passes on why background work, and soon writing, has ended.
func (r *reporter) onFailure(err error) {
	var c *CorruptionError
	if errors.As(err, &c) && r.Corruption != nil {
		r.Corruption(c)
	}
	if call := r.BackgroundError; call != nil {
		call(err)
	}
	r.log.Error("background work has ended", "error", err)
}
