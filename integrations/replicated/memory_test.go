package replicated

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	raftstore "github.com/brockdb/brock/integrations/raft"
	"github.com/brockdb/brock/vfs"
	"github.com/hashicorp/raft"
)

// The tests of this file are about what a node must not forget: its votes, and what it has acknowledged.

// TestNodeThatForgotDoesNotVote commits a command by two of three nodes. One of the two loses its disk,
// and starts again under its ID. Together with the third one, which lacks the command, it must elect
// nobody. It comes back only once its old self was removed.
func TestNodeThatForgotDoesNotVote(t *testing.T) {
	c := newCluster(t, 3, nil)
	leader := c.leader()
	lagging, forgets := c.others(leader)[0], c.others(leader)[1]
	c.isolate(lagging, true, true)
	ctx := within(t, time.Minute)
	_, err := leader.node.Load().Apply(ctx, new(Command).Set([]byte("k"), []byte("acknowledged")))
	must(t, err)
	c.crash(forgets, vfs.CrashOptions{Mode: vfs.All})
	forgets.mem = vfs.NewMem()
	c.start(forgets)
	c.crash(leader, vfs.CrashOptions{Mode: vfs.All})
	c.net.heal()
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for _, m := range []*member{lagging, forgets} {
			if m.node.Load().Status().Leads {
				t.Fatalf("%s leads by the vote of a node that has forgotten all", m.id)
			}
		}
	}
	c.start(leader)
	if err := forgets.node.Load().Join(within(t, 10*time.Second), string(leader.address()), true); !errors.Is(err, errRefused) {
		t.Errorf("it joins while the group counts on what it was: %v", err)
	}
	must(t, c.any().Remove(ctx, forgets.id))
	must(t, forgets.node.Load().Join(ctx, string(c.leader().address()), true))
	for _, m := range c.members {
		if v, err := get(m.node.Load(), Newest, "k"); v != "acknowledged" {
			t.Errorf("%s: %q, %v", m.id, v, err)
		}
	}
	c.compare()
}

// TestRemovedForCertain asks to remove a member whose removal is in the log of the leader only. Who is
// told that it is gone may throw its disk away, so that must be committed.
func TestRemovedForCertain(t *testing.T) {
	c := newCluster(t, 3, func(o *Options) { o.Heartbeat = 2 * time.Second })
	leader := c.leader()
	n, other := leader.node.Load(), c.others(leader)[0]
	must(t, n.await(within(t, time.Minute), n.raft.Barrier(0)))
	c.isolate(leader, true, true)
	n.raft.RemoveServer(raft.ServerID(other.id), 0, 0)
	c.wait("the removal in the log", func() bool { _, known := n.member(raft.ServerID(other.id)); return !known })
	if err := n.change(within(t, 300*time.Millisecond), changeRemove, other.id, ""); err == nil {
		t.Error("a removal that is not committed is reported")
	}
	c.net.heal()
	must(t, c.others(leader)[1].node.Load().Remove(within(t, time.Minute), other.id))
}

// TestVoteIsStoredAtOnce crashes between the two calls by which raft stores a vote.
func TestVoteIsStoredAtOnce(t *testing.T) {
	mem, stopped := vfs.NewMem(), make(chan struct{})
	defer close(stopped)
	open := func() *guardedLog {
		store, err := raftstore.OpenStore(brock.Options{Dir: "log", FS: mem, MemoryLimit: 4 << 20}, raftstore.Options{})
		must(t, err)
		t.Cleanup(func() { _ = store.Close() })
		return &guardedLog{Store: store, snapshot: noSnapshot, disk: newDisk(func(err error) { t.Error(err) }, stopped, time.Minute)}
	}
	check := func(g *guardedLog, term uint64, candidate string) {
		t.Helper()
		at, err := g.GetUint64(voteTermKey)
		must(t, err)
		who, err := g.Get(voteCandidateKey)
		must(t, err)
		if at != term || string(who) != candidate {
			t.Errorf("a vote for %q in term %d, want %q in %d", who, at, candidate, term)
		}
	}
	g := open()
	check(g, 0, "")
	must(t, g.SetUint64(voteTermKey, 5))
	must(t, g.Set(voteCandidateKey, []byte("n1")))
	check(g, 5, "n1")
	must(t, g.SetUint64(voteTermKey, 6))
	mem = mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	g = open()
	check(g, 5, "n1")
	must(t, g.SetUint64(voteTermKey, 6))
	must(t, g.Set(voteCandidateKey, []byte("n2")))
	mem = mem.CrashClone(vfs.CrashOptions{Mode: vfs.Lost})
	check(open(), 6, "n2")
}

// TestLogBehindASnapshot deletes parts of a log as raft does.
func TestLogBehindASnapshot(t *testing.T) {
	stopped := make(chan struct{})
	defer close(stopped)
	store, err := raftstore.OpenStore(brock.Options{Dir: "log", FS: vfs.NewMem(), MemoryLimit: 4 << 20}, raftstore.Options{})
	must(t, err)
	defer store.Close()
	meta, own := &raft.SnapshotMeta{Index: 210, Term: 1}, true
	g := &guardedLog{Store: store, disk: newDisk(func(err error) { t.Error(err) }, stopped, time.Minute)}
	g.snapshot = func() (*raft.SnapshotMeta, bool) { return meta, own }
	var logs []*raft.Log
	for i := uint64(1); i <= 300; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: 1})
	}
	must(t, g.StoreLogs(logs))
	check := func(first, last uint64) {
		t.Helper()
		a, _ := g.FirstIndex()
		z, _ := g.LastIndex()
		if a != first || z != last {
			t.Errorf("the log is %d to %d, want %d to %d", a, z, first, last)
		}
	}
	must(t, g.DeleteRange(1, 210))
	check(210-keptBehind+1, 300)
	// A snapshot of another node, and the log has other entries. Raft deletes all, and knows of none
	// that it has: what is behind the snapshot is there until the leader's entries come.
	meta, own = &raft.SnapshotMeta{Index: 250, Term: 2}, false
	must(t, g.DeleteRange(83, 300))
	check(251, 300)
	var l raft.Log
	if must(t, g.GetLog(250, &l)); l.Term != 2 {
		t.Errorf("the entry of the snapshot is of term %d", l.Term)
	}
	if err := g.GetLog(249, &l); err != raft.ErrLogNotFound {
		t.Errorf("an entry before the snapshot: %v", err)
	}
	must(t, g.DeleteRange(251, 300))
	must(t, g.StoreLogs([]*raft.Log{{Index: 251, Term: 2}}))
	check(251, 251)
}

// TestSnapshotIntoALongerLog isolates a leader with many commands that nobody else has. Meanwhile the
// others go on, and cut their logs. The snapshot that it gets ends before its own log does.
func TestSnapshotIntoALongerLog(t *testing.T) {
	c := newCluster(t, 3, func(o *Options) { o.Heartbeat, o.TrailingBytes = 3*time.Second, 1 })
	c.set("k", "v")
	leader := c.leader()
	n := leader.node.Load()
	c.isolate(leader, true, true)
	session := entry{kind: kindSession}
	for range 600 {
		n.raft.Apply(session.encode(), 0)
	}
	c.wait("the commands in its log", func() bool { return n.raft.LastIndex() >= 600 })
	last := n.raft.LastIndex()
	others := c.others(leader)
	ctx := within(t, time.Minute)
	for i := range 300 {
		_, err := others[0].node.Load().Apply(ctx, new(Command).Set(fmt.Appendf(nil, "k%d", i), []byte(strings.Repeat("v", 20))))
		must(t, err)
	}
	for _, m := range others {
		must(t, m.node.Load().raft.Snapshot().Error())
		if s := m.node.Load().Status(); s.Snapshot >= last || s.Snapshot < 250 {
			t.Fatalf("a snapshot of %d, the other log ends at %d", s.Snapshot, last)
		}
	}
	c.net.heal()
	for round := range 2 {
		for _, m := range c.members {
			if v, err := get(m.node.Load(), Newest, "k299"); len(v) != 20 {
				t.Fatalf("round %d: %s: %q, %v", round, m.id, v, err)
			}
		}
		c.compare()
		c.crash(leader, vfs.CrashOptions{Mode: vfs.Chaos, Seed: 7})
		c.start(leader)
	}
}

// TestSnapshotThatIsNotNeeded offers a node snapshots that it has more than.
func TestSnapshotThatIsNotNeeded(t *testing.T) {
	c := newCluster(t, 1, nil)
	n := c.leader().node.Load()
	at := c.set("a", "1")
	c.set("b", "2")
	if err := n.snapshots.checkNeeded(at, n.raft.CurrentTerm()); err == nil {
		t.Error("a snapshot of an entry that the log goes on behind is taken")
	}
	must(t, n.snapshots.checkNeeded(at+100, n.raft.CurrentTerm()))
}

// TestFullDiskForLong stores members, and then commands, on a full disk. Raft would go on with members
// that are not in its log, so it must not get an error; for commands it does, but not for ever.
func TestFullDiskForLong(t *testing.T) {
	mem, stopped := vfs.NewMem(), make(chan struct{})
	defer close(stopped)
	store, err := raftstore.OpenStore(brock.Options{Dir: "log", FS: mem, MemoryLimit: 4 << 20}, raftstore.Options{})
	must(t, err)
	defer store.Close()
	failed := make(chan error, 100)
	d := newDisk(func(err error) { failed <- err }, stopped, time.Minute)
	g := &guardedLog{Store: store, snapshot: noSnapshot, disk: d}
	mem.SetCapacity(1)
	data := make([]byte, 64<<10)
	done := make(chan error, 1)
	go func() { done <- g.StoreLogs([]*raft.Log{{Index: 1, Type: raft.LogConfiguration, Data: data}}) }()
	select {
	case err := <-done:
		t.Fatalf("members on a full disk: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	mem.SetCapacity(0)
	must(t, <-done)
	mem.SetCapacity(1)
	short := &disk{fail: d.fail, stopped: stopped, limit: 100 * time.Millisecond, calls: map[uint64]time.Time{}}
	g.disk = short
	for began := time.Now(); len(failed) == 0; time.Sleep(time.Millisecond) {
		if err := g.StoreLogs([]*raft.Log{{Index: 2, Data: data}}); !errors.Is(err, brock.ErrNoSpace) {
			t.Fatalf("a command on a full disk: %v", err)
		}
		if time.Since(began) > time.Minute {
			t.Fatal("the node goes on")
		}
	}
}
