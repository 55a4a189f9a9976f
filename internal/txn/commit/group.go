package commit

import "slices"

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
	synced    bool          // a member asked for a sync
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

// hasRoom reports whether a request with n bytes may join. Any request may join an empty group.
func (g *group) hasRoom(n int) bool {
	return !g.exclusive && len(g.members) < MaxTransactions && g.bytes+n <= MaxBytes
}

// addMember puts r into the group. Call it only if hasRoom.
func (g *group) addMember(r *Request) {
	g.members = append(g.members, r)
	g.bytes += len(r.Payload)
	g.synced = g.synced || r.Synced
}

// removeMember takes r out. It returns false if the group is taken, or r is no member.
func (g *group) removeMember(r *Request) bool {
	i := slices.Index(g.members, r)
	// Once the group is taken, the leader reads members without mu and may be writing r.
	if g.taken || i < 0 {
		return false
	}
	g.members = slices.Delete(g.members, i, i+1)
	g.bytes -= len(r.Payload)
	return true
}

// queue is the groups that wait for their turn, first come first served. Only
// the last one has room. Groups are reused; their channels are not.
type queue struct {
	groups []*group // in order of arrival
	free   []*group // finished groups, for reuse
}

// groupWithRoom returns the last group if n more bytes have room in it, else a new one.
func (q *queue) groupWithRoom(n int) *group {
	if last := len(q.groups) - 1; last >= 0 && q.groups[last].hasRoom(n) {
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
