package commit

import (
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/invariant"
	"github.com/brockdb/brock/internal/txn/conflict"
)

// Request is one transaction that asks to be committed. It belongs to the
// pipeline from the call of Commit until its return, and may then be reused;
// Payload may not: versions and checksums have been written into it.
type Request struct {
	Payload []byte         // encoded records (entry.AppendRecord) with version 0, one after the other, padded (entry.Pad)
	Records int            // how many; a request with none has nothing to commit
	Ranges  int            // how many of them are range deletes
	Check   conflict.Check // what must hold, else the request is refused
	Synced  bool           // durable before Commit returns, else with the next sync
	Yields  bool           // it may be run again: it is refused if another has its turn where it writes
	Turn    *Turn          // its own; nil: it has none

	checked entry.Version // no conflict up to here; 0: unknown
	version entry.Version // the result: set by the leader
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
