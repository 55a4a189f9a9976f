package commit

import "github.com/brockdb/brock/internal/entry"

// Group is what is appended to the journal at once. The payload slices come to
// lie one behind the other; Append changes the checksums of their records.
type Group struct {
	Payload      [][]byte
	Transactions int
	Records      int
	FirstVersion entry.Version
	Last         entry.Version
}

// Position is a place in the journal.
type Position struct {
	Segment entry.FileNum
	Offset  int64
}
