package replicated

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock"
	raftstore "github.com/brockdb/brock/integrations/raft"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// The errors of the package; test for them with errors.Is.
var (
	ErrConflict = errors.New("replicated: a condition does not hold")                        // nothing was written
	ErrUnknown  = errors.New("replicated: it is not known whether the command was done")     // it was sent, and no answer came in time
	ErrStale    = errors.New("replicated: the state may be older than asked for")            // no leader, or the node lags
	ErrReplaced = errors.New("replicated: the state was replaced by a snapshot: begin anew") // a View that ran too long, or a Watch
	ErrStopped  = errors.New("replicated: the node has stopped")                             // its disk has failed, or has damage; the text says what
	ErrStalled  = errors.New("replicated: a call of the disk takes too long")                // with ErrStopped

	errNotLeader = errors.New("replicated: the node does not lead")
	errRefused   = errors.New("replicated: refused")
)

// Node is a member of a group of nodes that have the same state. Its methods may be called at once.
type Node struct {
	o         Options
	logger    hclog.Logger
	mux       *mux
	transport *raft.NetworkTransport
	peers     *peers
	log       *guardedLog
	disk      *disk
	snapshots *snapshots
	raft      *raft.Raft // set before started
	started   atomic.Bool
	ended     raft.Future     // of raft's first shutdown: later ones wait for nothing
	ctx       context.Context // ends when the node stops
	cancel    func()
	stopped   chan struct{} // closed when the node stops
	work      sync.WaitGroup

	reads reads
	none  atomic.Uint64 // 0: the clock of stores that nobody writes

	mu    sync.Mutex // guards:
	err   error      // why the node has stopped
	state *state
	idle  []*ticket // sessions that nobody uses
}

// Open opens a node, and makes its directory if it is not there. A new node has no group: Bootstrap
// begins one, Join joins one. One that was in a group goes on there.
//
// It returns the errors of brock.Open. A node with a damaged store is not opened: see README.md.
func Open(o Options) (*Node, error) { return openNode(o, false) }

// OpenAlone opens a node as the only member of its group. It is the way back when a majority of the voters
// is lost for good: without it the group never goes on. Commands in this node's log count, also those that
// were not acknowledged; those that others have acknowledged without this node are lost. So take the
// node whose Status had the greatest Applied, and do it on one only. The other nodes' directories must be
// deleted before they Join: this node has a new birth, so they can't reach it.
//
// The group needs to have had a command. If it is interrupted, call it again. Errors are those of Open.
func OpenAlone(o Options) (*Node, error) { return openNode(o, true) }

func openNode(o Options, alone bool) (*Node, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	n := &Node{o: o, stopped: make(chan struct{})}
	n.o.damage = n.fail
	n.ctx, n.cancel = context.WithCancel(context.Background())
	out := o.LogOutput
	if out == nil {
		out = io.Discard
	}
	n.logger = hclog.New(&hclog.LoggerOptions{Name: o.ID, Level: hclog.Info, Output: out})
	n.mux = newMux(o.Network, o.RPCTimeout, n.serveConn)
	n.peers = &peers{
		timeout: o.RPCTimeout, connect: min(o.RPCTimeout, 2*o.Heartbeat),
		idle: map[raft.ServerAddress][]net.Conn{}, busy: map[net.Conn]raft.ServerAddress{},
		asks: map[raft.ServerAddress]int{},
	}
	n.peers.dial = func(a raft.ServerAddress, t time.Duration) (net.Conn, error) {
		return n.mux.dialAs(prefacePeer, a, t)
	}
	n.reads.n, n.reads.locally.run, n.reads.leading.run = n, n.reads.findIndex, n.reads.leadIndex
	n.disk = newDisk(n.fail, n.stopped, o.DiskWait)
	if err := n.open(alone); err != nil {
		n.fail(err)
		return nil, errors.Join(err, n.closeStores())
	}
	n.started.Store(true)
	n.mux.start()
	n.work.Add(2)
	go n.housekeep()
	go n.watchLeader()
	return n, nil
}

// open opens the stores, and starts raft.
func (n *Node) open(alone bool) error {
	o := &n.o
	if err := o.fs().MkdirAll(o.Dir); err != nil {
		return err
	}
	log, err := raftstore.OpenStore(o.logOptions(o.logDir()), raftstore.Options{})
	if err != nil {
		return err
	}
	if n.mux.birth, err = readBirth(log, alone); err != nil {
		return errors.Join(err, log.Close())
	}
	n.snapshots = &snapshots{n: n, users: map[string]int{}, record: &record{state: 1}}
	n.log = &guardedLog{Store: log, disk: n.disk, snapshot: n.snapshots.newest}
	b, err := log.Get(recordKey)
	if err == nil && b != nil {
		n.snapshots.record, err = decodeRecord(b)
	}
	if err != nil {
		return err
	}
	r := n.snapshots.record
	if err := o.removeStray(r); err != nil {
		return err
	}
	if err := n.openState(r); err != nil {
		return err
	}
	if r.snapshot != nil {
		n.reads.done = r.meta.Index
		if err := fitLog(log, r.meta); err != nil {
			return err
		}
	}
	n.reads.done = max(n.reads.done, n.state.applied.index)
	if err := n.checkLog(); err != nil {
		return err
	}
	n.transport = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: n.mux, MaxPool: 3, Timeout: o.RPCTimeout, Logger: n.logger,
		MaxRPCsInFlight: 1, // pipelining wedges followers, and gains little
	})
	n.transport.TimeoutScale = 1 // with headerSize: see there
	return n.startRaft(alone)
}

// birthKey is the key of a node's birth in the stable store.
var birthKey = []byte("brock/birth")

// readBirth returns the birth of the node with this log. It stores one if the directory is new, or anew.
func readBirth(log *raftstore.Store, anew bool) (b birth, err error) {
	stored, err := log.Get(birthKey)
	if err != nil {
		return b, err
	}
	if stored == nil || anew {
		_, _ = rand.Read(b[:]) // never fails
		return b, log.Set(birthKey, append([]byte{format}, b[:]...))
	}
	d := decoder{b: stored}
	d.readFormat()
	d.check(len(d.b) == len(b), "is not 8 bytes long")
	copy(b[:], d.b)
	return b, d.wrap("birth")
}

// openState opens the state that the record names. If a newer checkpoint was fetched, the state is made
// anew of that.
func (n *Node) openState(r *record) (err error) {
	n.state, err = openState(&n.o, r.state)
	if err != nil || r.snapshot == nil || n.state.applied.index >= r.snapshot.applied.index {
		return err
	}
	if err := n.state.db.Close(); err != nil {
		return err
	}
	if n.state, err = n.o.makeState(n.ctx, r.state+1, r.snapshot); err != nil {
		return err
	}
	if err := n.snapshots.setState(r.state + 1); err != nil {
		return err
	}
	return removeAll(n.o.fs(), n.o.stateDir(r.state))
}

// fitLog deletes a log that does not go through the snapshot: it came from another node, and a power
// loss came before the log was deleted.
func fitLog(log *raftstore.Store, at *raft.SnapshotMeta) error {
	first, err := log.FirstIndex()
	if err != nil || first > at.Index {
		return err
	}
	var l raft.Log
	err = log.GetLog(at.Index, &l)
	if err == nil && l.Term == at.Term {
		return nil
	}
	if err != nil && err != raft.ErrLogNotFound {
		return err
	}
	return log.DeleteRange(0, math.MaxUint64)
}

// checkLog checks the invariant that the log has all entries that the state lacks.
func (n *Node) checkLog() error {
	first, err := n.log.FirstIndex()
	if err != nil || first <= n.reads.done+1 {
		return err
	}
	return fmt.Errorf("replicated: the log begins at %d, the state ends at %d: %w", first, n.reads.done, brock.ErrCorrupt)
}

// startRaft starts raft. It runs in a goroutine of its own, as raft panics and the guarded log ends the
// goroutine when a store can't be read.
func (n *Node) startRaft(alone bool) error {
	n.log.finds.Store(true)
	defer n.log.finds.Store(false)
	started := make(chan error, 1)
	go func() {
		err := errors.New("replicated: raft has not started")
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("replicated: raft has not started: %v", p)
			}
			started <- err
		}()
		config, m := n.o.raftConfig(n.logger), &machine{n: n}
		if alone {
			self := raft.Configuration{Servers: []raft.Server{{ID: config.LocalID, Address: n.address()}}}
			if err = raft.RecoverCluster(config, m, n.log, n.log, n.snapshots, n.transport, self); err != nil {
				return
			}
		}
		n.raft, err = raft.NewRaft(config, m, n.log, n.log, n.snapshots, n.transport)
	}()
	if err := <-started; err != nil {
		return errors.Join(err, n.Err())
	}
	return nil
}

// address is where other nodes reach this one, and no other one.
func (n *Node) address() raft.ServerAddress { return raft.ServerAddress(n.mux.Addr().String()) }

// Err returns why the node has stopped: ErrStopped with the reason, or brock.ErrClosed; nil while it
// runs.
func (n *Node) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// Stopped is closed when the node stops, by itself or by Close.
func (n *Node) Stopped() <-chan struct{} { return n.stopped }

// fail stops the node: nobody hears of it any more, so that others elect a leader, and it serves
// nothing. It waits for nothing.
func (n *Node) fail(err error) {
	n.stop(fmt.Errorf("%w: %w", ErrStopped, err))
}

func (n *Node) stop(err error) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return false
	}
	n.err = err
	if !errors.Is(err, brock.ErrClosed) {
		n.logger.Error("the node stops", "error", err)
	}
	n.cancel()
	_ = n.mux.Close()
	if n.started.Load() {
		n.ended = n.raft.Shutdown()
	}
	close(n.stopped)
	return true
}

// Close leaves the group to the others, and closes the node. A leader hands over first. Transactions
// that are open end with brock.ErrClosed.
func (n *Node) Close() error {
	if n.Err() == nil && n.raft.State() == raft.Leader && n.hasOtherVoters() {
		ctx, cancel := context.WithTimeout(n.ctx, 3*n.o.Heartbeat)
		if err := n.await(ctx, n.raft.LeadershipTransfer()); err != nil {
			n.logger.Warn("hand over", "error", err)
		}
		cancel()
	}
	n.stop(brock.ErrClosed)
	return n.closeStores()
}

// closeStores waits for raft, and closes what is open. If the disk hangs, it gives up.
func (n *Node) closeStores() error {
	closed := make(chan error, 1)
	go func() {
		switch {
		case n.ended != nil:
			_ = n.ended.Error()
		case n.raft != nil:
			_ = n.raft.Shutdown().Error()
		}
		if n.transport != nil {
			_ = n.transport.Close()
		}
		n.work.Wait()
		n.mux.wait.Wait()
		var errs []error
		n.mu.Lock()
		s := n.state
		n.state = nil
		n.mu.Unlock()
		if s != nil {
			errs = append(errs, s.db.Close())
		}
		if n.log != nil {
			errs = append(errs, n.log.Store.Close())
		}
		closed <- errors.Join(errs...)
	}()
	select {
	case err := <-closed:
		return err
	case <-time.After(n.o.DiskWait + 2*n.o.RPCTimeout):
		return ErrStalled
	}
}

func (n *Node) hasOtherVoters() bool {
	for _, s := range n.raft.GetConfiguration().Configuration().Servers {
		if s.Suffrage == raft.Voter && s.ID != raft.ServerID(n.o.ID) {
			return true
		}
	}
	return false
}

// await waits for a future of raft. A raft that has stopped may never answer.
func (n *Node) await(ctx context.Context, f raft.Future) error {
	done := make(chan error, 1)
	go func() { done <- f.Error() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-n.stopped:
		return n.Err()
	}
}

// housekeep takes a snapshot whenever the log has grown by SnapshotBytes.
func (n *Node) housekeep() {
	defer n.work.Done()
	tick := time.NewTicker(n.o.Heartbeat)
	defer tick.Stop()
	taken := int64(0) // bytes of the log at the newest snapshot
	for {
		select {
		case <-n.stopped:
			return
		case <-tick.C:
		}
		now := n.log.bytes.Load()
		if now-taken < n.o.SnapshotBytes {
			continue
		}
		if err := n.await(n.ctx, n.raft.Snapshot()); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
			n.logger.Warn("take a snapshot", "error", err)
			continue // the next tick tries again
		}
		taken = now
	}
}

// watchLeader ends calls to a leader that is none any more: one that hangs would never answer them.
func (n *Node) watchLeader() {
	defer n.work.Done()
	tick := time.NewTicker(n.o.Heartbeat / 4)
	defer tick.Stop()
	var last raft.ServerAddress
	for {
		select {
		case <-n.stopped:
			return
		case <-tick.C:
		}
		now, _ := n.raft.LeaderWithID()
		if last != "" && now != last {
			n.peers.drop(last)
		}
		last = now
	}
}

// tuneTrailing tells raft how many entries TrailingBytes are. It counts entries, and not bytes.
func (n *Node) tuneTrailing() {
	count := n.log.count.Load()
	if count == 0 || !n.started.Load() {
		return
	}
	c := n.raft.ReloadableConfig()
	c.TrailingLogs = uint64(min(max(n.o.TrailingBytes*count/max(n.log.bytes.Load(), 1), 16), 1<<24))
	if err := n.raft.ReloadConfig(c); err != nil {
		n.logger.Warn("set trailing logs", "error", err)
	}
}

// current returns the state for the machine, which alone changes it.
func (n *Node) current() *state {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state
}

// acquire returns the state for a reader, who releases it.
func (n *Node) acquire() (*state, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return nil, n.err
	}
	n.state.users++
	return n.state, nil
}

func (n *Node) release(s *state) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.users--; s.users == 0 && s.gone.Err() != nil {
		close(s.idle)
	}
}

// swap puts a state in the place of the one that is read. Who reads that one may go on for SwapWait;
// then its reads return brock.ErrClosed.
func (n *Node) swap(next *state) {
	n.mu.Lock()
	old := n.state
	n.state = next
	old.replace()
	if old.users == 0 {
		close(old.idle)
	}
	n.mu.Unlock()
	n.work.Add(1)
	go func() {
		defer n.work.Done()
		select {
		case <-old.idle:
		case <-n.stopped:
		case <-time.After(n.o.SwapWait):
		}
		if err := old.db.Close(); err != nil {
			n.logger.Warn("close a state that was replaced", "error", err)
		}
		_ = removeAll(n.o.fs(), n.o.stateDir(old.number)) // or the next Open does
	}()
}

// Status is what a node knows of itself and its group.
type Status struct {
	ID          string
	Leader      string // ID of the leader; "" = not known
	Leads       bool
	Term        uint64
	Committed   uint64    // index up to which the log is known to be committed
	Applied     uint64    // index of the last command in the state
	Snapshot    uint64    // index of the newest snapshot; 0: none
	LastContact time.Time // with the leader
	Members     []Member
}

// Status returns the status. It asks nobody.
func (n *Node) Status() Status {
	_, leader := n.raft.LeaderWithID()
	s := Status{
		ID: n.o.ID, Leader: string(leader), Leads: n.raft.State() == raft.Leader, Term: n.raft.CurrentTerm(),
		Committed: n.raft.CommitIndex(), LastContact: n.raft.LastContact(),
	}
	if r := n.snapshots.current(); r.snapshot != nil {
		s.Snapshot = r.meta.Index
	}
	if now, err := n.acquire(); err == nil {
		s.Applied = now.db.Version()
		n.release(now)
	}
	for _, m := range n.raft.GetConfiguration().Configuration().Servers {
		host, _ := splitAddress(m.Address)
		s.Members = append(s.Members, Member{string(m.ID), host, m.Suffrage == raft.Voter})
	}
	return s
}
