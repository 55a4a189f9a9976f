package replicated

import (
	"errors"
	"testing"
	"time"

	"github.com/brockdb/brock"
	raftstore "github.com/brockdb/brock/integrations/raft"
	"github.com/brockdb/brock/vfs"
	"github.com/hashicorp/raft"
)

func noSnapshot() (*raft.SnapshotMeta, bool) { return nil, false }

// TestFullDiskBehindACut deletes the tail of a log, and then has no space for what follows. Raft still
// counts the deleted entries, so it must not get an error, but wait, or the node must stop.
func TestFullDiskBehindACut(t *testing.T) {
	mem := vfs.NewMem()
	store, err := raftstore.OpenStore(brock.Options{Dir: "log", FS: mem, MemoryLimit: 4 << 20}, raftstore.Options{})
	must(t, err)
	defer store.Close()
	failed, stopped := make(chan error, 1), make(chan struct{})
	defer close(stopped)
	g := &guardedLog{Store: store, snapshot: noSnapshot, disk: newDisk(func(err error) { failed <- err }, stopped, time.Minute)}
	entries := func(from, to uint64) (logs []*raft.Log) {
		for i := from; i <= to; i++ {
			logs = append(logs, &raft.Log{Index: i, Term: 1, Data: make([]byte, 8000)})
		}
		return logs
	}
	must(t, g.StoreLogs(entries(1, 10)))
	mem.SetCapacity(1)
	if err := g.StoreLogs(entries(11, 20)); !errors.Is(err, brock.ErrNoSpace) {
		t.Fatalf("a full disk: %v", err)
	}
	mem.SetCapacity(0)
	must(t, g.DeleteRange(5, 10))
	mem.SetCapacity(1)
	done := make(chan error, 1)
	go func() { done <- g.StoreLogs(entries(5, 20)) }()
	select {
	case err := <-done:
		t.Fatalf("on a full disk behind a cut it returns %v", err)
	case err := <-failed:
		t.Fatalf("the node stops: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	mem.SetCapacity(0)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if last, err := g.LastIndex(); last != 20 || err != nil {
		t.Errorf("the log ends at %d, %v", last, err)
	}
}

// TestDiskErrorEndsTheGoroutine lets a vote fail to be stored. Raft would panic, or go on.
func TestDiskErrorEndsTheGoroutine(t *testing.T) {
	store, err := raftstore.OpenStore(brock.Options{Dir: "log", FS: vfs.NewMem(), MemoryLimit: 4 << 20}, raftstore.Options{})
	must(t, err)
	failed, stopped := make(chan error, 1), make(chan struct{})
	defer close(stopped)
	g := &guardedLog{Store: store, snapshot: noSnapshot, disk: newDisk(func(err error) { failed <- err }, stopped, time.Minute)}
	must(t, store.Close())
	ended := make(chan bool, 1)
	go func() {
		returned := false
		defer func() { ended <- returned }()
		_ = g.SetUint64([]byte("CurrentTerm"), 7)
		returned = true
	}()
	if <-ended {
		t.Error("it returns")
	}
	if err := <-failed; !errors.Is(err, brock.ErrClosed) {
		t.Errorf("the node stops with %v", err)
	}
}
