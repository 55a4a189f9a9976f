package report

import (
	"time"

	"github.com/brockdb/brock/internal/base/errs"
)

// Work describes a finished piece of background work.
type Work struct {
	Reason            string        // why it was done
	EntriesIn, Runs   int64         // entries read; runs compacted
	Segments          int64         // segments whose live values were moved
	BytesIn, BytesOut int64         // bytes read and written
	Took              time.Duration // from begin to end
	Err               error         // nil if it succeeded
}

// Reader describes a long reader: the oldest open transaction, and the data that
// is kept only for open transactions. Metrics has the same at any time.
type Reader struct {
	Version     uint64        // the version that it reads
	Begun       string        // where it began: function, file and line; "" = not known
	For         time.Duration // time since data that it reads was first replaced; 0 = none was
	FileBytes   int64         // in files that only open transactions need
	MemoryBytes int64         // in memtables that only open transactions need
}

// Leak describes a transaction that was never ended and that nobody can end any more.
type Leak struct {
	Version uint64 // the version that it read
	Begun   string // where it began: function, file and line
	Kept    bool   // it has handed out memory: the files and memtables that it read stay until the process ends
}

// Loss describes the data that Open has left out because of damage (Options.Recover), as
// far as it is known.
type Loss struct {
	Damage      *errs.Corruption // the first damage, a brock.CorruptionError
	Version     uint64           // the newest version that the store shows
	LastVersion uint64           // the newest version that was found behind the damage; there may have been newer ones
	Commits     int64            // number of commits that were found in the journal behind the damage
	Edits       int64            // number of edits that were found in MANIFEST behind the damage
	Bytes       int64            // size of journal and MANIFEST behind the damage
}

// Stall describes the begin or the end of a time in which writers are throttled.
type Stall struct {
	Begin  bool          // true at the begin, false at the end
	Reason string        // why writers are throttled
	Took   time.Duration // at the end: how long it lasted
}

// DiskSpace says that writes are refused, because the disk is full or
// Options.DiskLimit is reached, or that they are accepted again.
type DiskSpace struct {
	Full    bool  // writes are refused
	Left    int64 // bytes left on the disk or below the limit, the smaller of both; -1 = not known
	Reserve int64 // bytes of Left that are kept for deletes and for work that frees disk space
	Err     error // the first refusal; nil if writes are accepted again
}
