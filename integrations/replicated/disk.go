package replicated

import (
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
}

var (
	_ raft.LogStore          = (*guardedLog)(nil)
	_ raft.MonotonicLogStore = (*guardedLog)(nil)
	_ raft.StableStore       = (*guardedLog)(nil)
)

// StoreLog implements raft.LogStore.
func (g *guardedLog) StoreLog(l *raft.Log) error { return g.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore. On a full disk a leader steps down and a follower does not
// acknowledge, so an error is enough; after any other one the node stops.
func (g *guardedLog) StoreLogs(logs []*raft.Log) error {
	store := func() error { return g.Store.StoreLogs(logs) }
	if g.cut.Load() {
		// Raft would go on as if the deleted entries were there.
		g.disk.must(store)
	} else if err := g.disk.do(store); err != nil {
		if !passes(err) && !errors.Is(err, raftstore.ErrGap) {
			g.disk.fail(err)
		}
		return err
	}
	for _, l := range logs {
		g.note(l)
	}
	g.cut.Store(false)
	return nil
}

// note counts an entry.
func (g *guardedLog) note(l *raft.Log) {
	g.bytes.Add(int64(len(l.Data)) + 32)
	g.count.Add(1)
}

// GetLog implements raft.LogStore.
func (g *guardedLog) GetLog(index uint64, l *raft.Log) error {
	err := g.Store.GetLog(index, l)
	if err != nil && err != raft.ErrLogNotFound {
		g.disk.fail(fmt.Errorf("read the log: %w", err))
		runtime.Goexit() // raft would panic
	}
	if err == nil && g.finds.Load() {
		g.note(l)
	}
	return err
}

// DeleteRange implements raft.LogStore. Raft deletes the tail when another leader has other entries.
func (g *guardedLog) DeleteRange(lowest, highest uint64) error {
	if last, err := g.Store.LastIndex(); err == nil && highest >= last {
		g.cut.Store(true)
	}
	return g.disk.do(func() error { return g.Store.DeleteRange(lowest, highest) })
}

// Set implements raft.StableStore: of a vote.
func (g *guardedLog) Set(key, value []byte) error {
	g.disk.must(func() error { return g.Store.Set(key, value) })
	return nil
}

// SetUint64 implements raft.StableStore: of a term or a vote. Raft panics when it fails.
func (g *guardedLog) SetUint64(key []byte, value uint64) error {
	g.disk.must(func() error { return g.Store.SetUint64(key, value) })
	return nil
}
