package commit

import (
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/invariant"
)

// Request is one transaction that asks to be committed. It belongs to the pipeline from the call of
// Commit until its return, and may then be reused. Its Payload may not: versions and checksums have
// been written into it.
type Request struct {
	Payload []byte // records (entry.AppendRecord) with version 0, padded (entry.Pad)
	Records int    // number of records; 0: nothing to commit
	Ranges  int    // number of range deletes among them
	Check   Check  // what must hold, else the request is refused
	Synced  bool   // durable before Commit returns; else with the next sync
	Yields  bool   // it can be run again, so it is refused where another call has its turn
	Turn    *Turn  // its own place in the lines; nil: none

	checked entry.Version // committer found no conflict up to here; 0: it has not checked
	version entry.Version // the result: set by the leader; 0 if err is set
	err     error
}

// checkPayload panics, in the committer, if the payload isn't what it should be:
// the leader trusts it.
func checkPayload(r *Request) {
	n, ranges := 0, 0
	for rest := r.Payload; len(rest) > 0; n++ {
		rec, err := entry.DecodeRecord(rest)
		invariant.Check(err == nil && rec.Version == 0 && rec.Size <= len(rest), "record %d of a payload: version %d, %v", n, rec.Version, err)
		if rec.Kind == entry.RangeDelete {
			ranges++
		}
		rest = rest[rec.Size:]
	}
	invariant.Check(ranges == r.Ranges, "%d range deletes in a payload of %d", r.Ranges, ranges)
	invariant.Check(len(r.Payload)&7 == 0, "a payload of %d bytes", len(r.Payload))
	invariant.Check(n == r.Records, "%d records in a payload of %d", r.Records, n)
}
