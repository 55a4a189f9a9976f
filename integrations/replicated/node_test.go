package replicated

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/vfs"
	"github.com/hashicorp/raft"
)

// within is a context of a test's call that must end by itself.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// TestRepeatedCommandIsDoneOnce sends a command again after others have written the key.
func TestRepeatedCommandIsDoneOnce(t *testing.T) {
	c := newCluster(t, 3, nil)
	n := c.leader().node.Load()
	ctx := within(t, time.Minute)
	s, err := n.takeSession(ctx)
	must(t, err)
	e := entry{Command: *new(Command).Set([]byte("k"), []byte("once")), kind: kindWrite, session: s.id, sequence: 1}
	first, _, err := n.send(ctx, e.encode())
	must(t, err)
	c.set("k", "other")
	// By another node, and after the leader has changed.
	must(t, n.await(ctx, n.raft.LeadershipTransfer()))
	for _, m := range c.members {
		again, _, err := m.node.Load().send(ctx, e.encode())
		if err != nil || again != first {
			t.Errorf("%s: %+v, %v, want %+v", m.id, again, err, first)
		}
	}
	if v, err := get(n, Newest, "k"); v != "other" {
		t.Errorf("the key is %q, %v", v, err)
	}
	c.compare()
}

// TestUpdatesLoseNothing counts on all nodes at once.
func TestUpdatesLoseNothing(t *testing.T) {
	c := newCluster(t, 3, nil)
	c.leader()
	ctx := within(t, time.Minute)
	var wait sync.WaitGroup
	for _, m := range c.members {
		for range 2 {
			wait.Go(func() {
				for range 25 {
					_, err := m.node.Load().Update(ctx, func(txn *Txn) error {
						b, err := txn.Get([]byte("count"))
						if err != nil && !errors.Is(err, brock.ErrKeyNotFound) {
							return err
						}
						n, _ := strconv.Atoi(string(b))
						txn.Set([]byte("count"), strconv.AppendInt(nil, int64(n+1), 10))
						if b, err = txn.Get([]byte("count")); err != nil || string(b) != strconv.Itoa(n+1) {
							return fmt.Errorf("own write: %q, %w", b, err)
						}
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wait.Wait()
	if v, err := get(c.any(), Newest, "count"); v != "150" {
		t.Errorf("counted to %s, %v", v, err)
	}
	c.compare()
}

// TestConditions checks what a command sees.
func TestConditions(t *testing.T) {
	c := newCluster(t, 1, nil)
	n := c.leader().node.Load()
	ctx := within(t, time.Minute)
	v := c.set("k", "1")
	apply := func(x *Command) error {
		_, err := n.Apply(ctx, x)
		return err
	}
	must(t, apply(new(Command).If([]byte("k"), v).If([]byte("absent"), 0).Set([]byte("k"), []byte("2")).Set([]byte("l"), []byte("2"))))
	for _, x := range []*Command{
		new(Command).If([]byte("k"), v).Set([]byte("l"), []byte("3")),
		new(Command).If([]byte("k"), 0).Set([]byte("l"), []byte("3")),
		new(Command).If([]byte("absent"), v).Set([]byte("l"), []byte("3")),
	} {
		if err := apply(x); !errors.Is(err, ErrConflict) {
			t.Errorf("%+v: %v", x.Conditions, err)
		}
	}
	if l, _ := get(n, Newest, "l"); l != "2" {
		t.Errorf("a command whose condition did not hold has written: %q", l)
	}
	// Expiry goes by the time of commands.
	gone := &Command{Operations: []Operation{{Kind: OpSet, Key: []byte("e"), Value: []byte("x"), ExpiresAt: time.Now().Add(-time.Hour)}}}
	must(t, apply(gone))
	must(t, apply(new(Command).If([]byte("e"), 0).Set([]byte("f"), nil)))
	for _, x := range []*Command{
		new(Command).Set(make([]byte, MaxKey+1), nil),
		new(Command).Set([]byte("k"), make([]byte, MaxCommand)),
		{Operations: []Operation{{Kind: 77, Key: []byte("k")}}},
	} {
		if err := apply(x); !errors.Is(err, brock.ErrInvalid) {
			t.Errorf("a command that can't be: %v", err)
		}
	}
	must(t, apply(new(Command).Set([]byte("large"), make([]byte, MaxCommand-100))))
	must(t, apply(new(Command).DeleteRange([]byte("l"), nil)))
	if err := apply(new(Command).If([]byte("large"), 0).If([]byte("l"), 0)); err != nil {
		t.Errorf("after a delete of all from l on: %v", err)
	}
}

// TestKeyspaces writes to named keyspaces, under conditions on their keys and ranges.
func TestKeyspaces(t *testing.T) {
	c := newCluster(t, 3, nil)
	n := c.leader().node.Load()
	ctx := within(t, time.Minute)
	set := new(Command).Set([]byte("k"), []byte("default")).Set([]byte("k"), []byte("named"))
	set.Operations[1].Keyspace = "x"
	v, err := n.Apply(ctx, set)
	must(t, err)
	read := func(n *Node, keyspace string) (value string) {
		t.Helper()
		must(t, n.View(ctx, Newest, func(r *Reader) error {
			txn, err := r.In(keyspace)
			if err != nil {
				return err
			}
			item, err := txn.Get([]byte("k"))
			if err != nil {
				return err
			}
			b, err := item.Value()
			value = string(b)
			return err
		}))
		return value
	}
	for _, m := range c.members {
		if a, b := read(m.node.Load(), ""), read(m.node.Load(), "x"); a != "default" || b != "named" {
			t.Errorf("%s reads %q and %q", m.id, a, b)
		}
	}
	if err := n.View(ctx, AnyAge, func(r *Reader) error { _, err := r.In("absent"); return err }); !errors.Is(err, brock.ErrKeyspaceNotFound) {
		t.Errorf("a keyspace that is not there: %v", err)
	}
	in := func(keyspace string, x Condition) *Command {
		x.Keyspace = keyspace
		return &Command{Conditions: []Condition{x}}
	}
	for _, test := range []struct {
		keyspace  string
		condition Condition
		holds     bool
	}{
		{"x", Condition{Key: []byte("k"), Version: v}, true},
		{"x", Condition{Key: []byte("k")}, false},
		{"absent", Condition{Key: []byte("k")}, true},
		{"absent", Condition{Key: []byte("k"), Version: v}, false},
		{"absent", Condition{Range: true}, true},
		{"absent", Condition{Range: true, Count: 1}, false},
		{"x", Condition{Range: true, Version: v, Count: 1}, true},
		{"x", Condition{Range: true, Version: v - 1, Count: 1}, false},
		{"x", Condition{Range: true, Version: v, Count: 2}, false},
		{"x", Condition{Range: true, Version: v}, false},
		{"x", Condition{Key: []byte("l"), Range: true}, true},
		{"x", Condition{Upper: []byte("k"), Range: true}, true},
	} {
		if _, err := n.Apply(ctx, in(test.keyspace, test.condition)); (err == nil) != test.holds || err != nil && !errors.Is(err, ErrConflict) {
			t.Errorf("%s, %+v: %v", test.keyspace, test.condition, err)
		}
	}
	for _, name := range []string{ownKeyspace, strings.Repeat("n", 256)} {
		set.Operations[1].Keyspace = name
		if _, err := n.Apply(ctx, set); !errors.Is(err, brock.ErrInvalid) {
			t.Errorf("keyspace %.20q: %v", name, err)
		}
	}
	// A delete in a range is found, too, after a compaction as well.
	gone := new(Command).Delete([]byte("k"))
	gone.Operations[0].Keyspace = "x"
	_, err = n.Apply(ctx, gone)
	must(t, err)
	if _, err := n.Apply(ctx, in("x", Condition{Range: true, Version: v + 1000, Count: 1})); !errors.Is(err, ErrConflict) {
		t.Errorf("after a delete in the range: %v", err)
	}
	c.compare()
}

// TestUpdatesOfARange lets all nodes add keys to one keyspace, each of which is named for how many there
// are before. A key that were added unseen would give two the same name.
func TestUpdatesOfARange(t *testing.T) {
	c := newCluster(t, 3, nil)
	c.leader()
	ctx := within(t, time.Minute)
	var wait sync.WaitGroup
	for _, m := range c.members {
		wait.Go(func() {
			for range 20 {
				_, err := m.node.Load().Update(ctx, func(txn *Txn) error {
					txn, count := txn.In("list"), 0
					for _, err := range txn.Range([]byte("a"), nil) {
						if err != nil {
							return err
						}
						count++
					}
					txn.Set(fmt.Appendf(nil, "a%03d.%s", count, m.id), nil)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	must(t, c.any().View(ctx, Newest, func(r *Reader) error {
		txn, err := r.In("list")
		if err != nil {
			return err
		}
		count := 0
		for item, err := range txn.All() {
			if err != nil {
				return err
			}
			if want := fmt.Sprintf("a%03d.", count); !strings.HasPrefix(string(item.Key()), want) {
				t.Errorf("%s, want %s", item.Key(), want)
			}
			count++
		}
		if count != 60 {
			t.Errorf("%d keys", count)
		}
		return nil
	}))
	c.compare()
}

// fill writes until the log was cut.
func (c *cluster) fill(n *Node) {
	c.t.Helper()
	value := strings.Repeat("v", 500)
	for i := 0; ; i++ {
		c.set(fmt.Sprintf("fill%d", i%400), value)
		if i%100 == 99 {
			first, err := n.log.FirstIndex()
			must(c.t, err)
			if first > 300 {
				return
			}
		}
	}
}

func smallLogs(o *Options) { o.SnapshotBytes, o.TrailingBytes = 32<<10, 4<<10 }

// TestJoinNeedsSnapshot adds nodes to a group whose log was cut: one that votes and one that reads.
func TestJoinNeedsSnapshot(t *testing.T) {
	c := newCluster(t, 3, smallLogs)
	leader := c.leader()
	c.fill(leader.node.Load())
	for i, id := range []string{"n4", "n5"} {
		m := c.add(id)
		c.start(m)
		// It asks a node that does not lead.
		must(t, m.node.Load().Join(within(t, time.Minute), string(c.others(leader)[0].address()), i == 0))
		if v, err := get(m.node.Load(), Newest, "fill7"); err != nil || len(v) != 500 {
			t.Errorf("%s: %d bytes, %v", id, len(v), err)
		}
		if s := m.node.Load().Status(); s.Snapshot == 0 {
			t.Errorf("%s got no snapshot", id)
		}
	}
	voters := map[string]bool{}
	for _, m := range c.leader().node.Load().Status().Members {
		voters[m.ID] = m.Voter
	}
	if want := map[string]bool{"n1": true, "n2": true, "n3": true, "n4": true, "n5": false}; fmt.Sprint(voters) != fmt.Sprint(want) {
		t.Errorf("members: %v", voters)
	}
	c.compare()
	// They live on by themselves.
	m := c.members[4]
	c.crash(m, vfs.CrashOptions{Mode: vfs.Chaos, Seed: 5})
	c.start(m)
	c.compare()
}

// TestSnapshotBehindABarrier takes a snapshot whose index is no command's. A node that gets it must not
// wait for a command that never comes.
func TestSnapshotBehindABarrier(t *testing.T) {
	c := newCluster(t, 3, smallLogs)
	c.fill(c.leader().node.Load())
	ctx := within(t, time.Minute)
	must(t, c.leader().node.Load().raft.LeadershipTransfer().Error())
	n := c.leader().node.Load()
	if _, err := get(n, Newest, "fill1"); err != nil { // the leader puts a barrier into the log
		t.Fatal(err)
	}
	c.wait("a snapshot", func() bool { return n.raft.Snapshot().Error() == nil })
	if r := n.snapshots.current(); r.meta.Index <= r.snapshot.applied.index {
		t.Fatalf("the snapshot is of entry %d, its command is %d", r.meta.Index, r.snapshot.applied.index)
	}
	m := c.add("n4")
	c.start(m)
	must(t, m.node.Load().Join(ctx, string(n.address()), true))
	if _, err := get(m.node.Load(), Newest, "fill1"); err != nil {
		t.Error(err)
	}
	c.compare()
}

// TestIncrement lets a node lag twice. The second checkpoint comes as an increment. Then it lags once
// more, and the leader is another node: all of it comes.
func TestIncrement(t *testing.T) {
	c := newCluster(t, 3, func(o *Options) {
		smallLogs(o)
		o.Store.Tuning.MemtableSize, o.Store.Tuning.SegmentSize = 64<<10, 64<<10
		if o.ID == "n3" {
			o.SnapshotBytes = 1 << 40 // it takes none itself
		}
	})
	late := c.members[2]
	c.leader()
	ctx := within(t, time.Minute)
	values := 0
	lag := func() *brock.BackupInfo {
		t.Helper()
		before := late.node.Load().Status().Snapshot
		c.isolate(late, true, true)
		c.wait("another leader", func() bool { return c.leader() != late })
		n := c.leader().node.Load()
		for range 150 {
			values++
			if _, err := n.Apply(ctx, new(Command).Set(fmt.Appendf(nil, "v%d", values), make([]byte, 2000))); err != nil {
				t.Fatal(err)
			}
		}
		c.wait("a snapshot", func() bool { return n.Status().Snapshot > before+100 })
		c.net.heal()
		c.wait("the snapshot to be there", func() bool { return late.node.Load().Status().Snapshot > before })
		c.compare()
		s := late.node.Load().snapshots
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.base.info
	}
	if first := lag(); first.Incremental {
		t.Error("the first checkpoint comes as an increment")
	}
	leader := c.leader()
	if second := lag(); c.leader() == leader && (!second.Incremental || second.StreamBytes > second.StoreBytes*3/4) {
		t.Errorf("the second one: increment %v, %d bytes of %d", second.Incremental, second.StreamBytes, second.StoreBytes)
	}
	for _, m := range c.members[:2] {
		if n := c.leader().node.Load(); n.o.ID != m.id {
			must(t, n.await(ctx, n.raft.LeadershipTransferToServer(raft.ServerID(m.id), m.node.Load().address())))
			break
		}
	}
	leader = c.leader()
	if third := lag(); third.Incremental && c.leader() == leader {
		t.Error("an increment of another node")
	}
}

// TestSnapshotUnderReaders brings a node that lags a snapshot. Who reads its old state may go on for a
// while, and then gets a typed error; a Watch gets it at once, and begins anew.
func TestSnapshotUnderReaders(t *testing.T) {
	c := newCluster(t, 3, func(o *Options) {
		smallLogs(o)
		o.SwapWait = 300 * time.Millisecond
	})
	leader := c.leader()
	c.set("before", "1")
	late := c.others(leader)[0]
	n := late.node.Load()
	if v, err := get(n, Newest, "before"); v != "1" {
		t.Fatalf("%q, %v", v, err)
	}
	ctx := within(t, time.Minute)
	watched := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		for commit, err := range n.Watch(ctx, brock.WatchOptions{Snapshot: true}) {
			if err != nil {
				watched <- err
				return
			}
			if commit.Snapshot {
				close(ready)
			}
		}
	}()
	<-ready
	old := n.current()
	entered, swapped := make(chan struct{}), make(chan struct{})
	read := make(chan error, 1)
	go func() {
		read <- n.View(ctx, AnyAge, func(txn *Reader) error {
			close(entered)
			<-swapped
			item, err := txn.Get([]byte("before")) // the old state is still there
			if err != nil {
				return fmt.Errorf("right after the swap: %w", err)
			}
			if v, err := item.ValueCopy(nil); err != nil || string(v) != "1" {
				return fmt.Errorf("right after the swap: %q, %w", v, err)
			}
			for {
				if _, err := txn.Get([]byte("before")); err != nil {
					return err
				}
				time.Sleep(time.Millisecond)
			}
		})
	}()
	<-entered
	c.isolate(late, true, true)
	c.fill(leader.node.Load())
	c.net.heal()
	c.wait("a new state", func() bool { return n.current() != old })
	close(swapped)
	for what, errs := range map[string]chan error{"View": read, "Watch": watched} {
		select {
		case err := <-errs:
			if !errors.Is(err, ErrReplaced) {
				t.Errorf("%s ends with %v", what, err)
			}
		case <-ctx.Done():
			t.Fatalf("%s does not end", what)
		}
	}
	for commit, err := range n.Watch(ctx, brock.WatchOptions{Snapshot: true}) {
		must(t, err)
		for change, err := range commit.Changes() {
			must(t, err)
			if change.Keyspace != "" {
				t.Errorf("a change of keyspace %q", change.Keyspace)
			}
		}
		break
	}
	c.compare()
	c.wait("the old state to be removed", func() bool {
		names, err := late.mem.List("node")
		must(t, err)
		states := 0
		for _, name := range names {
			if strings.HasPrefix(name, "state-") {
				states++
			}
		}
		return states == 1
	})
}

// TestPowerLossOfAll cuts the power of all nodes at once, again and again. What was acknowledged stays.
func TestPowerLossOfAll(t *testing.T) {
	c := newCluster(t, 3, func(o *Options) {
		smallLogs(o)
		o.Store.Tuning.MemtableSize = 64 << 10
	})
	c.leader()
	value := strings.Repeat("v", 300)
	for round := range 6 {
		last := ""
		for i := range 200 {
			last = fmt.Sprintf("%d.%d", round, i)
			c.set("last", last)
			c.set(fmt.Sprintf("k%d", i), value+last)
		}
		for i, m := range c.members {
			c.crash(m, vfs.CrashOptions{Mode: vfs.Chaos, Seed: uint64(round*10 + i)})
		}
		for _, m := range c.members {
			c.start(m)
		}
		for _, m := range c.members {
			if v, err := get(m.node.Load(), Newest, "last"); v != last {
				t.Fatalf("%s: %q after the power loss, %q before, %v", m.id, v, last, err)
			}
		}
		c.compare()
	}
}

// TestReadsOfALeaderThatWasDeposed isolates a leader. It must not serve its state as the newest one,
// also not with a node that does not vote on its side.
func TestReadsOfALeaderThatWasDeposed(t *testing.T) {
	c := newCluster(t, 3, nil)
	reader := c.add("n4")
	c.start(reader)
	leader := c.leader()
	must(t, reader.node.Load().Join(within(t, time.Minute), string(leader.address()), false))
	c.set("k", "old")
	n := leader.node.Load()
	if v, err := get(n, time.Hour, "k"); v != "old" {
		t.Fatalf("%q, %v", v, err)
	}
	term := n.raft.CurrentTerm()
	for _, m := range c.others(leader) {
		if m != reader {
			c.net.cut(m.address(), leader.address(), true)
			c.net.cut(leader.address(), m.address(), true)
			c.net.cut(m.address(), reader.address(), true)
			c.net.cut(reader.address(), m.address(), true)
		}
	}
	// Whatever it thinks that it is.
	if err := n.reads.confirmTerm(within(t, time.Second), term, ""); err == nil {
		t.Error("a leader and a node that does not vote are taken for a quorum")
	}
	other := c.others(leader)[0]
	if _, err := other.node.Load().Apply(within(t, time.Minute), new(Command).Set([]byte("k"), []byte("new"))); err != nil {
		t.Fatal(err)
	}
	for _, x := range []*Node{n, reader.node.Load()} {
		var stale string
		err := x.View(within(t, 500*time.Millisecond), Newest, func(txn *Reader) error {
			stale = "read"
			return nil
		})
		if !errors.Is(err, ErrStale) || stale != "" {
			t.Errorf("%s: %v", x.o.ID, err)
		}
		if err := x.View(within(t, 500*time.Millisecond), time.Nanosecond, func(*Reader) error { return nil }); !errors.Is(err, ErrStale) {
			t.Errorf("%s: a bound that is over: %v", x.o.ID, err)
		}
		if v, err := get(x, AnyAge, "k"); v != "old" || err != nil {
			t.Errorf("%s: any age: %q, %v", x.o.ID, v, err)
		}
	}
	// Its last answer is younger than an hour.
	if v, err := get(n, time.Hour, "k"); v != "old" || err != nil {
		t.Errorf("not older than an hour: %q, %v", v, err)
	}
	c.net.heal()
	c.compare()
	if v, err := get(n, Newest, "k"); v != "new" {
		t.Errorf("after the links are whole: %q, %v", v, err)
	}
}

// TestFullDisk fills the disks of a follower and of the leader. The group goes on, and the node comes
// back by itself when there is space, or after a restart.
func TestFullDisk(t *testing.T) {
	c := newCluster(t, 3, func(o *Options) { o.DiskWait = 20 * time.Second })
	for _, leads := range []bool{false, true} {
		m := c.leader()
		if !leads {
			m = c.others(m)[0]
		}
		c.set("k", "before")
		m.mem.SetCapacity(1)
		ctx := within(t, time.Minute)
		value := make([]byte, 2000)
		for i := range 50 {
			key := fmt.Appendf(nil, "%v%d", leads, i)
			if _, err := c.others(m)[i%2].node.Load().Apply(ctx, new(Command).Set(key, value)); err != nil {
				t.Fatalf("leads %v: %v", leads, err)
			}
		}
		if c.leader() == m {
			t.Errorf("a node with a full disk leads")
		}
		m.mem.SetCapacity(0)
		if n := m.node.Load(); n.Err() != nil { // a sync has failed: the store says that it must be opened again
			t.Logf("stopped: %v", n.Err())
			m.node.Store(nil)
			_ = n.Close()
			c.start(m)
		}
		c.compare()
	}
}

// TestHangingDisk lets a sync of the leader's disk hang. Its heartbeats would go on; so it stops, and
// the others elect another leader.
func TestHangingDisk(t *testing.T) {
	var hang atomic.Pointer[chan struct{}]
	c := newCluster(t, 3, func(o *Options) {
		o.DiskWait, o.RPCTimeout = 400*time.Millisecond, 500*time.Millisecond
		id, base := o.ID, o.Store.FS
		o.Store.FS = faultfs.New(base, faultfs.Options{Before: func(op faultfs.Op) {
			if p := hang.Load(); p != nil && id == hanging.Load() && op.Kind&faultfs.Syncs != 0 {
				<-*p
			}
		}})
	})
	m := c.leader()
	c.set("k", "before")
	release := make(chan struct{})
	hanging.Store(m.id)
	hang.Store(&release)
	ctx := within(t, time.Minute)
	if _, err := c.others(m)[0].node.Load().Apply(ctx, new(Command).Set([]byte("k"), []byte("after"))); err != nil {
		t.Fatal(err)
	}
	n := m.node.Load()
	select {
	case <-n.Stopped():
	case <-ctx.Done():
		t.Fatal("the node does not stop")
	}
	if !errors.Is(n.Err(), ErrStalled) || !errors.Is(n.Err(), ErrStopped) {
		t.Errorf("it stops with %v", n.Err())
	}
	if err := n.View(ctx, AnyAge, func(*Reader) error { return nil }); !errors.Is(err, ErrStopped) {
		t.Errorf("a stopped node serves: %v", err)
	}
	if _, err := n.Apply(ctx, new(Command).Set([]byte("k"), nil)); !errors.Is(err, ErrStopped) {
		t.Errorf("a stopped node takes commands: %v", err)
	}
	m.node.Store(nil)
	if err := n.Close(); !errors.Is(err, ErrStalled) {
		t.Errorf("close while the disk hangs: %v", err)
	}
	hang.Store(nil)
	close(release)
	c.wait("the disk", func() bool { return n.Close() == nil })
	c.start(m)
	c.compare()
}

var hanging atomic.Value

// TestDamage flips a bit in what a node reads. It stops, neither votes nor leads, and the others go
// on. Damage that Open finds keeps the node from opening.
func TestDamage(t *testing.T) {
	c := newCluster(t, 3, nil)
	m := c.leader()
	for i := range 50 {
		x := new(Command)
		for j := range 40 {
			x.Set(fmt.Appendf(nil, "k%d", i*40+j), []byte(strings.Repeat("v", 100)))
		}
		_, err := m.node.Load().Apply(within(t, time.Minute), x)
		must(t, err)
	}
	n := m.node.Load()
	must(t, n.current().db.Flush(context.Background()))
	m.node.Store(nil)
	must(t, n.Close())
	c.options = func(o *Options) { m.disk.Rot(".run", faultfs.Flip(100, 1)) }
	c.start(m)
	c.options = nil
	n = m.node.Load()
	if _, err := get(n, AnyAge, "k0"); err == nil {
		t.Fatal("the damage is not found")
	}
	select {
	case <-n.Stopped():
	case <-time.After(time.Minute):
		t.Fatal("a node that has found damage goes on")
	}
	if !errors.Is(n.Err(), brock.ErrCorrupt) || !errors.Is(n.Err(), ErrStopped) {
		t.Errorf("it stops with %v", n.Err())
	}
	m.node.Store(nil)
	must(t, n.Close())
	c.set("k1", "without it")
	// The log.
	names, err := m.mem.List("node/raft")
	must(t, err)
	damaged := 0
	for _, name := range names {
		f, err := m.mem.OpenReadWrite("node/raft/" + name)
		must(t, err)
		if size, _ := f.Size(); strings.HasSuffix(name, ".log") && size > 8000 {
			_, err = f.WriteAt([]byte("damage"), size/2)
			must(t, err)
			damaged++
		}
		must(t, f.Close())
	}
	if damaged == 0 {
		t.Fatalf("nothing was damaged: %v", names)
	}
	if n, err := c.tryStart(m); !errors.Is(err, brock.ErrCorrupt) {
		t.Errorf("a damaged log opens: %v", err)
		if err == nil {
			_ = n.Close()
		}
	}
	// It is removed, and comes back as a new node.
	ctx := within(t, time.Minute)
	must(t, c.any().Remove(ctx, m.id))
	m.mem = vfs.NewMem()
	c.start(m)
	must(t, m.node.Load().Join(ctx, string(c.leader().address()), true))
	c.compare()
}

// TestRemove removes nodes, but no voter without which there is no quorum.
func TestRemove(t *testing.T) {
	c := newCluster(t, 3, nil)
	leader := c.leader()
	others := c.others(leader)
	ctx := within(t, time.Minute)
	c.crash(others[0], vfs.CrashOptions{Mode: vfs.All})
	if err := leader.node.Load().Remove(within(t, 5*time.Second), others[1].id); err == nil {
		t.Error("a voter was removed, and the rest has no quorum")
	}
	must(t, leader.node.Load().Remove(ctx, others[0].id))
	must(t, leader.node.Load().Remove(ctx, others[0].id)) // again
	if n := len(leader.node.Load().Status().Members); n != 2 {
		t.Errorf("%d members", n)
	}
	c.members = []*member{leader, others[1]}
	c.compare()
	// A leader can be removed, too.
	must(t, others[1].node.Load().Remove(ctx, leader.id))
	c.wait("the other one to lead", func() bool { return others[1].node.Load().Status().Leads })
	if _, err := others[1].node.Load().Apply(ctx, new(Command).Set([]byte("k"), []byte("alone"))); err != nil {
		t.Error(err)
	}
}

// TestCloseHandsOver closes the leader. Another one leads before a heartbeat could be missed.
func TestCloseHandsOver(t *testing.T) {
	c := newCluster(t, 3, func(o *Options) { o.Heartbeat = 2 * time.Second })
	var n *Node
	c.wait("a leader", func() bool {
		m := c.leader()
		n = m.node.Load()
		return n != nil
	})
	for _, m := range c.members {
		if m.node.Load() == n {
			m.node.Store(nil)
		}
	}
	term := n.raft.CurrentTerm()
	must(t, n.Close())
	if n.Err() == nil || !errors.Is(n.View(context.Background(), AnyAge, nil), brock.ErrClosed) {
		t.Errorf("a closed node: %v", n.Err())
	}
	must(t, n.Close())
	next := c.leader().node.Load()
	if now := next.raft.CurrentTerm(); now != term+1 {
		t.Errorf("term %d, before %d: there was an election without a transfer", now, term)
	}
}

// TestOpenAlone loses two of three nodes. The third one goes on alone, with all that its log has, and the
// others come back as new nodes; one that comes back with what it had reaches nobody.
func TestOpenAlone(t *testing.T) {
	for _, options := range []func(o *Options){nil, smallLogs} {
		c := newCluster(t, 3, options)
		leader := c.leader()
		if options != nil {
			c.fill(leader.node.Load())
		}
		c.set("k", "acknowledged")
		ctx := within(t, time.Minute)
		alone, lost := c.others(leader)[0], []*member{leader, c.others(leader)[1]}
		if v, err := get(alone.node.Load(), Newest, "k"); v != "acknowledged" {
			t.Fatalf("%q, %v", v, err)
		}
		for _, m := range c.members {
			c.crash(m, vfs.CrashOptions{Mode: vfs.Chaos, Seed: 3})
		}
		for range 2 { // again
			c.alone = true
			c.start(alone)
			c.alone = false
			n := alone.node.Load()
			if v, err := get(n, Newest, "k"); v != "acknowledged" {
				t.Fatalf("%q, %v", v, err)
			}
			if s := n.Status(); len(s.Members) != 1 || !s.Leads {
				t.Errorf("%+v", s)
			}
			_, err := n.Apply(ctx, new(Command).Set([]byte("l"), []byte("alone")))
			must(t, err)
			c.crash(alone, vfs.CrashOptions{Mode: vfs.Chaos, Seed: 4})
		}
		for _, m := range c.members {
			c.start(m)
		}
		time.Sleep(500 * time.Millisecond) // the two elect a leader, that one must not find the third
		if v, err := get(alone.node.Load(), Newest, "l"); v != "alone" {
			t.Errorf("%q, %v", v, err)
		}
		for _, m := range lost {
			c.crash(m, vfs.CrashOptions{Mode: vfs.All})
			m.mem = vfs.NewMem()
			c.start(m)
			must(t, m.node.Load().Join(ctx, string(alone.address()), true))
		}
		c.compare()
	}
}

// TestOptionsAreChecked opens with options that can't be.
func TestOptionsAreChecked(t *testing.T) {
	good := Options{ID: "n", Dir: "d", Network: newNetwork().listen("a")}
	for what, change := range map[string]func(o *Options){
		"no ID":       func(o *Options) { o.ID = "" },
		"no network":  func(o *Options) { o.Network = nil },
		"heartbeat":   func(o *Options) { o.Heartbeat = time.Millisecond },
		"directory":   func(o *Options) { o.Store.Dir = "x" },
		"default TTL": func(o *Options) { o.Store.KeyspaceDefaults.TTL = time.Hour },
		"in memory":   func(o *Options) { o.Store.InMemory = true },
	} {
		o := good
		change(&o)
		if n, err := Open(o); !errors.Is(err, brock.ErrInvalid) || n != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestLogWithoutState opens a node whose log was cut, and whose state and checkpoint are gone.
func TestLogWithoutState(t *testing.T) {
	c := newCluster(t, 1, smallLogs)
	m := c.leader()
	c.fill(m.node.Load())
	n := m.node.Swap(nil)
	must(t, n.Close())
	names, err := m.mem.List("node")
	must(t, err)
	for _, name := range names { // the state alone comes back from the checkpoint
		if strings.HasPrefix(name, "state-") {
			must(t, removeAll(m.mem, "node/"+name))
		}
	}
	c.start(m)
	if v, err := get(m.node.Load(), Newest, "fill1"); len(v) != 500 {
		t.Errorf("%d bytes, %v", len(v), err)
	}
	must(t, m.node.Swap(nil).Close())
	for _, name := range names {
		if strings.HasPrefix(name, "checkpoint-") {
			must(t, removeAll(m.mem, "node/"+name))
		}
	}
	must(t, removeAll(m.mem, "node/state-2"))
	if n, err := c.tryStart(m); err == nil {
		t.Error("a node without its state opens")
		_ = n.Close()
	}
}

// TestSnapshotNeverGoesBack lets a local snapshot end after a newer one of another node has come. If it
// counted, the log would lack what lies between.
func TestSnapshotNeverGoesBack(t *testing.T) {
	c := newCluster(t, 1, nil)
	n := c.leader().node.Load()
	c.set("a", "1")
	old, err := (&machine{n: n}).Snapshot()
	must(t, err)
	defer old.Release()
	at := n.current().applied
	c.set("b", "2")
	must(t, n.raft.Snapshot().Error())
	k, err := n.snapshots.Create(1, at.index, at.term, raft.Configuration{}, 1, nil)
	must(t, err)
	must(t, old.Persist(k))
	if err := k.Close(); err == nil {
		t.Error("an older snapshot counts")
	}
	if s := n.Status(); s.Snapshot <= at.index {
		t.Errorf("the snapshot went back to %d", s.Snapshot)
	}
	names, err := c.members[0].mem.List("node")
	must(t, err)
	checkpoints := 0
	for _, name := range names {
		if strings.HasPrefix(name, "checkpoint-") {
			checkpoints++
		}
	}
	if checkpoints != 1 {
		t.Errorf("there are %v", names)
	}
}
