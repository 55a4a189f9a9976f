package replicated

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock"
	raftstore "github.com/brockdb/brock/integrations/raft"
	"github.com/hashicorp/raft"
)

// disk is what stands between raft and the disk. Raft ends the process when some writes fail, and a
// leader whose disk hangs goes on to send heartbeats, so that nobody else is elected. Here a node
// whose disk fails, or hangs for longer than limit, stops: its connections are closed, and it neither
// votes nor leads.
type disk struct {
	fail    func(error) // stops the node
	stopped <-chan struct{}
	limit   time.Duration

	mu    sync.Mutex // guards:
	next  uint64
	calls map[uint64]time.Time // calls that are under way, and when they began
}

func newDisk(fail func(error), stopped <-chan struct{}, limit time.Duration) *disk {
	d := &disk{fail: fail, stopped: stopped, limit: limit, calls: map[uint64]time.Time{}}
	go d.watch()
	return d
}

// watch stops the node when a call takes longer than the limit.
func (d *disk) watch() {
	tick := time.NewTicker(max(d.limit/8, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-d.stopped:
			return
		case now := <-tick.C:
			d.mu.Lock()
			late := false
			for _, began := range d.calls {
				late = late || now.Sub(began) > d.limit
			}
			d.mu.Unlock()
			if late {
				d.fail(ErrStalled)
			}
		}
	}
}

// do runs fn under the eyes of watch.
func (d *disk) do(fn func() error) error {
	d.mu.Lock()
	d.next++
	n := d.next
	d.calls[n] = time.Now()
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		delete(d.calls, n)
		d.mu.Unlock()
	}()
	return fn()
}

// passes reports whether nothing was written, and the same call may work later.
func passes(err error) bool {
	return (errors.Is(err, brock.ErrNoSpace) || errors.Is(err, brock.ErrRefused)) && !errors.Is(err, brock.ErrStopped)
}

// must runs fn again while the disk is full. After any other error, and after the limit, the node
// stops and the goroutine ends: the caller can't go on, and raft would end the process.
func (d *disk) must(fn func() error) {
	err := d.do(func() error {
		for {
			err := fn()
			if err == nil || !passes(err) {
				return err
			}
			select {
			case <-d.stopped:
				return err
			case <-time.After(min(d.limit/8, 100*time.Millisecond)):
			}
		}
	})
	if err != nil {
		d.fail(err)
		runtime.Goexit()
	}
}

// guardedLog is the raftstore.Store of a node as raft sees it.
type guardedLog struct {
	*raftstore.Store
	disk  *disk
	bytes atomic.Int64 // of entries that were stored, or found behind the snapshot
	count atomic.Int64 // of these entries
	finds atomic.Bool  // raft starts: it reads the entries behind the snapshot
	cut   atomic.Bool  // the tail was deleted, and raft does not know yet where the log ends

	// snapshot returns the newest snapshot, and whether this node has made it; nil: there is none.
	snapshot func() (meta *raft.SnapshotMeta, own bool)

	// Raft's main goroutine alone has these.
	voteTerm uint64    // of the vote that is about to be stored
	full     time.Time // since when each append has failed; zero: the last one has not
}

var (
	_ raft.LogStore          = (*guardedLog)(nil)
	_ raft.MonotonicLogStore = (*guardedLog)(nil)
	_ raft.StableStore       = (*guardedLog)(nil)
)

// StoreLog implements raft.LogStore.
func (g *guardedLog) StoreLog(l *raft.Log) error { return g.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore. On a full disk a leader steps down and a follower does not
// acknowledge, so an error is enough for some time; after any other one the node stops.
func (g *guardedLog) StoreLogs(logs []*raft.Log) error {
	store := func() error { return g.Store.StoreLogs(logs) }
	if g.cut.Load() || changesMembers(logs) {
		// Raft would go on as if the deleted entries, or the new members, were there.
		g.disk.must(store)
	} else if err := g.disk.do(store); err != nil {
		if g.full.IsZero() {
			g.full = time.Now()
		}
		// For each append that fails the leader steps back by an entry, in the end to a snapshot.
		if !passes(err) && !errors.Is(err, raftstore.ErrGap) || time.Since(g.full) > g.disk.limit {
			g.disk.fail(err)
		}
		return err
	}
	for _, l := range logs {
		g.note(l)
	}
	g.full = time.Time{}
	g.cut.Store(false)
	return nil
}

func changesMembers(logs []*raft.Log) bool {
	for _, l := range logs {
		if l.Type == raft.LogConfiguration {
			return true
		}
	}
	return false
}

// note counts an entry.
func (g *guardedLog) note(l *raft.Log) {
	g.bytes.Add(int64(len(l.Data)) + 32)
	g.count.Add(1)
}

// GetLog implements raft.LogStore. Behind a snapshot of another node the log may go on, with entries
// that the group does not have. Raft compares the first one with what the leader sends if it learns the
// term of the snapshot here.
func (g *guardedLog) GetLog(index uint64, l *raft.Log) error {
	err := g.Store.GetLog(index, l)
	if meta, _ := g.snapshot(); err == raft.ErrLogNotFound && meta != nil && meta.Index == index {
		*l = raft.Log{Index: index, Term: meta.Term, Type: raft.LogNoop}
		return nil
	}
	if err != nil && err != raft.ErrLogNotFound {
		g.disk.fail(fmt.Errorf("read the log: %w", err))
		runtime.Goexit() // raft would panic
	}
	if err == nil && g.finds.Load() {
		g.note(l)
	}
	return err
}

// keptBehind is how many entries stay in the log before a snapshot at least. A follower may have stored
// as many as one request has, and its answer was lost: a snapshot must not lie among these.
const keptBehind = 2 * maxAppendEntries

// DeleteRange implements raft.LogStore. Raft deletes the head of the log behind a snapshot, and the tail
// when another leader has other entries. When it gets a snapshot it deletes all, but goes on as if the
// entries behind the snapshot were there: these stay until the leader sends others.
func (g *guardedLog) DeleteRange(lowest, highest uint64) error {
	if meta, own := g.snapshot(); meta != nil && lowest <= meta.Index {
		highest = min(highest, meta.Index)
		if own {
			highest = min(highest, max(meta.Index, keptBehind)-keptBehind)
		}
	}
	if lowest > highest {
		return nil
	}
	remove := func() error { return g.Store.DeleteRange(lowest, highest) }
	if last, err := g.Store.LastIndex(); err == nil && highest >= last {
		g.cut.Store(true)
		g.disk.must(remove)
		return nil
	}
	return g.disk.do(remove)
}

// Raft keeps its vote under two keys, and stores them one after the other. If a crash came between, the
// node would have a vote for the candidate of an older term, and repeat it without a look at how far
// that one's log is. So both lie in one key.
var (
	voteTermKey      = []byte("LastVoteTerm")
	voteCandidateKey = []byte("LastVoteCand")
	voteKey          = []byte("brock/vote") // term, 8 bytes big-endian, and candidate
)

// Set implements raft.StableStore: of a vote's candidate. If it can't be stored, raft would panic.
func (g *guardedLog) Set(key, value []byte) error {
	if bytes.Equal(key, voteCandidateKey) {
		key, value = voteKey, append(binary.BigEndian.AppendUint64(nil, g.voteTerm), value...)
	}
	g.disk.must(func() error { return g.Store.Set(key, value) })
	return nil
}

// SetUint64 implements raft.StableStore: of a term, or a vote's term.
func (g *guardedLog) SetUint64(key []byte, value uint64) error {
	if bytes.Equal(key, voteTermKey) {
		g.voteTerm = value // Set stores it
		return nil
	}
	g.disk.must(func() error { return g.Store.SetUint64(key, value) })
	return nil
}

// Get implements raft.StableStore.
func (g *guardedLog) Get(key []byte) ([]byte, error) {
	if !bytes.Equal(key, voteCandidateKey) {
		return g.Store.Get(key)
	}
	vote, err := g.Store.Get(voteKey)
	if err != nil || len(vote) < 8 {
		return nil, err
	}
	return vote[8:], nil
}

// GetUint64 implements raft.StableStore.
func (g *guardedLog) GetUint64(key []byte) (uint64, error) {
	if !bytes.Equal(key, voteTermKey) {
		return g.Store.GetUint64(key)
	}
	vote, err := g.Store.Get(voteKey)
	if err != nil || len(vote) < 8 {
		return 0, err
	}
	return binary.BigEndian.Uint64(vote), nil
}
