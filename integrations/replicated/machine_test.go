package replicated

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
	"github.com/hashicorp/raft"
)

// firstCommand is the least index that a command can have: raft's first two entries are the
// configuration and that of the first leader. Making the node's own keyspace takes a version below it.
const firstCommand = 3

// machineOn is a machine without raft, on a file system.
func machineOn(t *testing.T, fs vfs.FS) *machine {
	n := &Node{o: Options{ID: "n", Dir: "node", Store: brock.Options{FS: fs, MemoryLimit: 4 << 20}}, stopped: make(chan struct{})}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.disk = &disk{fail: func(err error) { t.Errorf("the node stops: %v", err) }, stopped: n.stopped, limit: time.Second, calls: map[uint64]time.Time{}}
	must(t, fs.MkdirAll("node"))
	var err error
	n.state, err = openState(&n.o, 1)
	must(t, err)
	t.Cleanup(func() { _ = n.state.db.Close() })
	return &machine{n: n}
}

// logOf is a raft log of entries from index 3 on.
func logOf(entries ...entry) (logs []*raft.Log) {
	for i, e := range entries {
		logs = append(logs, &raft.Log{Index: uint64(firstCommand + i), Term: 1, Type: raft.LogCommand, Data: e.encode()})
	}
	return logs
}

func (m *machine) digest(t *testing.T) [32]byte {
	t.Helper()
	_, d, err := m.n.Digest(context.Background())
	must(t, err)
	return d
}

// TestBatchesDoNotMatter feeds the same log, with many conditions, expiries and repeated commands, to
// machines that get it in other batches, are restarted, and lose power. All must come to the same
// state and results.
func TestBatchesDoNotMatter(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	var entries []entry
	for range 20 {
		entries = append(entries, entry{kind: kindSession, time: 1000})
	}
	versions := make([]uint64, 8) // guesses
	for i := range 3000 {
		e := entry{kind: kindWrite, session: uint64(firstCommand + rng.IntN(20)), sequence: uint64(1 + i/2), time: uint64(1000 + i + rng.IntN(50))}
		if rng.IntN(20) == 0 {
			e.session = 1 << 40 // not known
		}
		k := rng.IntN(8)
		key := []byte{'a' + byte(k)}
		if rng.IntN(2) == 0 {
			e.If(key, versions[k])
		}
		if rng.IntN(8) == 0 {
			e.IfRange(key, []byte{'a' + byte(k+1)}, versions[k], min(1, int(versions[k])))
		}
		switch rng.IntN(8) {
		case 0:
			e.Delete(key)
			versions[k] = 0
		case 1:
			e.DeleteRange([]byte{'a' + byte(rng.IntN(8))}, []byte{'a' + byte(rng.IntN(9))})
		default:
			e.Set(key, fmt.Appendf(nil, "%d", i))
			versions[k] = uint64(firstCommand + len(entries)) // at most: of the default keyspace
			if rng.IntN(4) == 0 {
				e.Operations[0].ExpiresAt = time.UnixMilli(int64(1000 + i + rng.IntN(20)))
				e.Operations[0].Meta = byte(i)
			}
		}
		if rng.IntN(100) == 0 {
			e.Set([]byte("big"), make([]byte, 100<<10))
		}
		if i > 1000 && i%2 == 0 {
			e.Operations[0].Keyspace = []string{"x", "y", "none"}[rng.IntN(3)]
		}
		if i%500 == 0 {
			entries = append(entries, entry{kind: kindKeyspace, name: []string{"x", "y"}[i/500%2]})
		}
		entries = append(entries, e)
	}
	logs := logOf(entries...)
	one := machineOn(t, vfs.NewMem())
	want := map[uint64]any{}
	held := 0
	for _, l := range logs {
		want[l.Index] = one.Apply(l)
		if r := want[l.Index].(result); r.holds {
			held++
		}
	}
	if held < 500 || held > 2700 {
		t.Errorf("%d of %d commands held: that tests little", held, len(logs))
	}
	digest := one.digest(t)
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 9))
		mem := vfs.NewMem()
		m := machineOn(t, mem)
		for i := 0; i < len(logs); {
			n := min(1+rng.IntN(64), len(logs)-i)
			for j, r := range m.ApplyBatch(logs[i : i+n]) {
				if r != nil && r != want[logs[i+j].Index] {
					t.Fatalf("seed %d: entry %d: %+v, one by one %+v", seed, logs[i+j].Index, r, want[logs[i+j].Index])
				}
			}
			if i += n; rng.IntN(20) == 0 {
				mode := vfs.All
				if seed%2 == 1 {
					mode = vfs.Chaos
				}
				mem = mem.CrashClone(vfs.CrashOptions{Mode: mode, Seed: rng.Uint64()})
				next, err := openState(&Options{Dir: "node", Store: brock.Options{FS: mem, MemoryLimit: 4 << 20}}, 1)
				must(t, err)
				must(t, m.n.state.db.Close())
				m.n.state, m.n.o.Store.FS = next, mem
				i = 0 // raft begins at its snapshot
			}
		}
		if d := m.digest(t); d != digest {
			t.Errorf("seed %d: another digest", seed)
		}
	}
}

// TestSessionsAreForgotten begins more sessions than a state knows. A command of a session that was
// forgotten is not done, also after a restart.
func TestSessionsAreForgotten(t *testing.T) {
	mem := vfs.NewMem()
	m := machineOn(t, mem)
	var entries []entry
	for range maxSessions {
		entries = append(entries, entry{kind: kindSession})
	}
	first, second := uint64(firstCommand), uint64(firstCommand+1)
	write := func(session, sequence uint64) entry {
		return entry{Command: *new(Command).Set([]byte("k"), fmt.Append(nil, session)), kind: kindWrite, session: session, sequence: sequence}
	}
	// The first session is used, so the second one is the oldest.
	entries = append(entries, write(first, 1), entry{kind: kindSession}, write(second, 1), write(first, 2), write(first, 1))
	logs := logOf(entries...)
	results := m.ApplyBatch(logs)
	tail := results[maxSessions:]
	for i, lost := range []bool{false, false, true, false, true} {
		if r := tail[i].(result); r.lost != lost || r.holds == lost {
			t.Errorf("entry %d: %+v", i, r)
		}
	}
	must(t, m.n.state.db.Close())
	next, err := openState(&m.n.o, 1)
	must(t, err)
	m.n.state = next
	if n := next.sessions.order.Len(); n != maxSessions {
		t.Errorf("%d sessions after a restart", n)
	}
	again := &raft.Log{Index: logs[len(logs)-1].Index + 1, Type: raft.LogCommand}
	repeated := write(first, 2)
	again.Data = repeated.encode()
	if r := m.Apply(again); r != tail[3] {
		t.Errorf("a repeated command after a restart: %+v, want %+v", r, tail[3])
	}
	want := &Condition{Key: []byte("k"), Version: tail[3].(result).index}
	if ok, err := next.holds(want); !ok || err != nil {
		t.Errorf("the key is not of version %d, %v", want.Version, err)
	}
}

// TestStateGoesOnAfterPowerLoss cuts the power at many moments of a load that also makes keyspaces. Each
// state that is left takes the next entry of the log, under its index as version.
func TestStateGoesOnAfterPowerLoss(t *testing.T) {
	mem := vfs.NewMem()
	m := machineOn(t, mem)
	must(t, m.n.state.db.Close())
	m.n.o.Store.Tuning.MemtableSize = 64 << 10
	var err error
	m.n.state, err = openState(&m.n.o, 1)
	must(t, err)
	m.Apply(logOf(entry{kind: kindSession})[0])
	makes := func(index uint64) bool { return index%97 < 2 }
	entryAt := func(index uint64) *raft.Log {
		e := entry{Command: *new(Command).Set([]byte{byte(index)}, make([]byte, 300)), kind: kindWrite, session: firstCommand, sequence: index}
		if makes(index) {
			e = entry{kind: kindKeyspace, name: fmt.Sprint(index)}
		}
		return &raft.Log{Index: index, Type: raft.LogCommand, Data: e.encode()}
	}
	lost := 0
	for index := uint64(firstCommand + 1); index < 2000; index++ {
		m.Apply(entryAt(index))
		if index%10 != 0 && !makes(index) {
			continue
		}
		o := m.n.o
		o.Store.FS = mem.CrashClone(vfs.CrashOptions{Mode: []vfs.CrashMode{vfs.Lost, vfs.Chaos}[index/10%2], Seed: index})
		s, err := openState(&o, 1)
		must(t, err)
		after := &machine{n: &Node{o: o, disk: m.n.disk, state: s}}
		if s.applied.index < index {
			lost++
		}
		if s.applied.index > 0 { // else its session is not there
			for again := s.applied.index + 1; again <= index+2; again++ {
				after.Apply(entryAt(again))
				if !makes(again) && (s.applied.index != again || s.db.Version() != again) {
					t.Fatalf("version %d, applied %d after entry %d", s.db.Version(), s.applied.index, again)
				}
			}
		}
		must(t, s.db.Close())
	}
	if lost == 0 {
		t.Error("no power loss took a command")
	}
}
