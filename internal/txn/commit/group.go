package commit

import (
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/invariant"
)

// Request is one transaction that asks to be committed. It belongs to the pipeline from the call of
// Commit until its return, and may then be reused. Its Payload may not: versions and checksums have
// been written into it.
type Request struct {
	Payload []byte  // records (entry.AppendRecord) with version 0, padded (entry.Pad)
	Records int     // number of records; 0: nothing to commit
	Ranges  int     // number of range deletes among them
	Check   Check   // what must hold, else the request is refused
	Synced  bool    // durable before Commit returns; else with the next sync
	Given   []Given // versions of its parts, ascending; nil: all gets the next one
	Yields  bool    // it can be run again, so it is refused where another call has its turn
	Turn    *Turn   // its own place in the lines; nil: none

	// Operations are resolved in their order, behind the records of Payload, of whose keys they have none.
	// Now, in Unix milliseconds, decides which bases have expired.
	Operations []Operation
	Now        uint64

	plain, plainRecords int           // bytes and records of Payload without those of operations
	basesAt             entry.Version // version as of which the committer has read the bases
	checked             entry.Version // committer found no conflict up to here; 0: it has not checked
	version             entry.Version // the result, the greatest one: set by the leader; 0 if err is set
	err                 error
}

// plainBytes is the length of the payload without what operations write.
func (r *Request) plainBytes() int {
	if len(r.Operations) == 0 {
		return len(r.Payload)
	}
	return r.plain
}

// encodeResults computes the operations of r from their bases, and makes the results the end of the
// payload.
func (r *Request) encodeResults() error {
	r.Payload, r.Records = r.Payload[:r.plain], r.plainRecords
	for i := range r.Operations {
		o := &r.Operations[i]
		e, changed, err := o.Apply(&o.base, r.Now)
		if err != nil {
			return err
		}
		if !changed {
			continue
		}
		r.Records++
		r.Payload, o.at = o.Encoder.EncodeEntry(r.Payload, &e)
		if r.Records == 1 && len(r.Given) > 0 {
			r.Payload = entry.InsertVersion(r.Payload, o.at, r.Given[0].Version)
		}
		if o.Versioned {
			rec, _ := entry.DecodeRecord(r.Payload[o.at:]) // it was encoded here
			o.at += rec.KeyEnd() - Suffix
		}
	}
	// Not nil, which a large transaction has.
	if r.Payload = entry.PadRecords(r.Payload); r.Payload == nil {
		r.Payload = []byte{}
	}
	return nil
}

// Given is a version that the caller gives to a part of a payload.
type Given struct {
	Version entry.Version
	Begin   int // where in the payload the part begins; it ends where the next one begins
	Number  int // how many records are before it
}

// versionCount is how many versions the request gets.
func (r *Request) versionCount() int { return max(len(r.Given), 1) }

// checkPayload panics, in the committer, if the payload isn't what it should be:
// the leader trusts it.
func checkPayload(r *Request) {
	n, ranges := 0, 0
	for rest := r.Payload; len(rest) > 0; n++ {
		rec, err := entry.DecodeRecord(rest)
		given := slices.ContainsFunc(r.Given, func(g Given) bool { return g.Begin == len(r.Payload)-len(rest) && g.Version == rec.Version })
		invariant.Check(err == nil && (rec.Version == 0 || given) && rec.Size <= len(rest), "record %d of a payload: version %d, %v", n, rec.Version, err)
		if rec.Kind == entry.RangeDelete {
			ranges++
		}
		rest = rest[rec.Size:]
	}
	invariant.Check(ranges == r.Ranges, "%d range deletes in a payload of %d", r.Ranges, ranges)
	invariant.Check(len(r.Payload)&7 == 0, "a payload of %d bytes", len(r.Payload))
	invariant.Check(n == r.Records, "%d records in a payload of %d", r.Records, n)
}

// Limits of one group.
const (
	MaxTransactions = 1<<16 - 1 // as many as a frame can count
	MaxBytes        = 8 << 20   // of payload, unless one transaction alone is larger
)

// group is the transactions that are written together, or one exclusive turn. All fields are
// guarded by Pipeline.mu until the group is taken. From then on members and their results belong to
// its leader.
type group struct {
	members   []*Request    // in order of arrival, withdrawn ones removed
	bytes     int           // of their payloads
	versions  int           // that they get
	exclusive bool          // an exclusive turn: nobody may join
	called    bool          // it has a leader, or a token for one lies in wake
	taken     bool          // its leader has begun: nobody may join or leave
	awaited   int           // members that wake the leader, which sleeps in sleepForMembers; else 0
	wake      chan struct{} // members wait on it; nil until one does
}

// waitChannel returns the channel on which members wait. One member receives a value: it has to
// lead the group. The channel is closed when the results are set. It is never used
// for another group: a late waiter of this group could take that group's value.
func (g *group) waitChannel() chan struct{} {
	if g.wake == nil {
		g.wake = make(chan struct{}, 1)
	}
	return g.wake
}

// hasRoom reports whether r may join. Any request may join an empty group.
func (g *group) hasRoom(r *Request) bool {
	return !g.exclusive && g.versions+r.versionCount() <= MaxTransactions && g.bytes+len(r.Payload) <= MaxBytes
}

// addMember puts r into the group. Call it only if hasRoom.
func (g *group) addMember(r *Request) {
	g.members = append(g.members, r)
	g.bytes += len(r.Payload)
	g.versions += r.versionCount()
}

// queue is the groups that wait for their turn, first come first served. Only
// the last one has room. Groups are reused; their channels are not.
type queue struct {
	groups []*group // in order of arrival
	free   []*group // finished groups, for reuse
}

// groupWithRoom returns the last group if r has room in it, else a new one.
func (q *queue) groupWithRoom(r *Request) *group {
	if last := len(q.groups) - 1; last >= 0 && q.groups[last].hasRoom(r) {
		return q.groups[last]
	}
	return q.pushGroup()
}

// pushGroup appends an empty group.
func (q *queue) pushGroup() *group {
	if len(q.free) == 0 {
		q.free = append(q.free, new(group))
	}
	g := q.free[len(q.free)-1]
	q.free = q.free[:len(q.free)-1]
	q.groups = append(q.groups, g)
	return g
}

// unlinkGroup removes g, which need not be the first: withdrawals can empty any group.
func (q *queue) unlinkGroup(g *group) {
	i := slices.Index(q.groups, g)
	q.groups = slices.Delete(q.groups, i, i+1)
}

// recycleGroup keeps an unlinked group for later use.
func (q *queue) recycleGroup(g *group) {
	// The channel is left out: a late waiter may still receive from it. The payloads are cleared,
	// or the free list would keep them in memory.
	clear(g.members)
	*g = group{members: g.members[:0]}
	q.free = append(q.free, g)
}
