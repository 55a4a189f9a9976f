package replicated

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock"
	"github.com/hashicorp/raft"
)

// How old a View may be. Any positive time is a bound, too.
const (
	Newest time.Duration = 0  // it sees all that was done before it was called, on any node
	AnyAge time.Duration = -1 // it sees what this node has; it asks nobody
)

// View runs fn in a read-only transaction of this node's state, as brock.DB.View does. It sees all
// commands that were done maxAge before the call, and maybe later ones: it asks the leader, or relies
// on the last answer if that is young enough. It returns the error of fn, ErrStale with the reason if
// ctx ends before the state is new enough, ErrReplaced if fn ran for longer than Options.SwapWait while
// a snapshot has replaced the state, or ErrStopped. An error of fn that is brock.ErrCorrupt stops the
// node: it is damaged.
func (n *Node) View(ctx context.Context, maxAge time.Duration, fn func(r *Reader) error) error {
	if err := n.reads.refresh(ctx, maxAge); err != nil {
		return err
	}
	s, err := n.acquire()
	if err != nil {
		return err
	}
	defer n.release(s)
	err = s.db.ViewContext(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error { return fn(&Reader{txn, s}) })
	return n.explain(s, err)
}

// Reader is the read-only transaction of a View. It reads the default keyspace.
type Reader struct {
	*brock.Txn
	state *state
}

// In returns the transaction for another keyspace. Where there is none of this name yet it returns
// brock.ErrKeyspaceNotFound.
func (r *Reader) In(keyspace string) (*brock.Txn, error) {
	k := r.state.keyspace(keyspace)
	if k == nil {
		return nil, fmt.Errorf("replicated: keyspace %q: %w", keyspace, brock.ErrKeyspaceNotFound)
	}
	return r.Txn.In(k), nil
}

// explain says why a store was closed under a reader, and stops the node if the reader has met damage.
func (n *Node) explain(s *state, err error) error {
	switch {
	case errors.Is(err, brock.ErrCorrupt):
		n.fail(err)
		return n.Err()
	case !errors.Is(err, brock.ErrClosed):
		return err
	case n.Err() != nil:
		return n.Err()
	case s.gone.Err() != nil:
		return fmt.Errorf("%w: %w", ErrReplaced, err)
	}
	return err
}

// reads finds out how far the state is, and how far it must be for a read.
type reads struct {
	n       *Node
	locally rounds        // find the index for a read of this node
	leading rounds        // find the index for reads of all nodes; the leader's
	ready   atomic.Uint64 // the term in which this node leads and has committed an entry of its own

	mu         sync.Mutex    // guards:
	done       uint64        // the machine has seen the log up to here
	bell       chan struct{} // closed when done rises; nil: nobody waits
	fresh      time.Time     // the state had everything up to freshIndex then
	freshIndex uint64
}

// setDone notes that the machine has seen the log up to index.
func (r *reads) setDone(index uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if index <= r.done {
		return
	}
	r.done = index
	if r.bell != nil {
		close(r.bell)
		r.bell = nil
	}
}

// refresh waits until the state is new enough.
func (r *reads) refresh(ctx context.Context, maxAge time.Duration) error {
	if maxAge < 0 {
		return r.n.Err()
	}
	r.mu.Lock()
	young := maxAge > 0 && !r.fresh.IsZero() && time.Since(r.fresh) <= maxAge && r.done >= r.freshIndex
	r.mu.Unlock()
	if young {
		return r.n.Err()
	}
	index, began, err := r.locally.find(ctx)
	if err == nil {
		err = r.waitApplied(ctx, index)
	}
	if err != nil {
		if e := r.n.Err(); e != nil {
			return e
		}
		return fmt.Errorf("%w: %w", ErrStale, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if began.After(r.fresh) {
		r.fresh, r.freshIndex = began, index
	}
	return nil
}

// rounds lets callers share a round. Each waits for one that begins after it has come.
type rounds struct {
	run func(ctx context.Context) (uint64, error)

	mu      sync.Mutex // guards:
	next    *round     // that callers wait for; nil: nobody waits
	running bool
}

type round struct {
	done  chan struct{}
	began time.Time
	index uint64
	err   error
}

func (r *rounds) find(ctx context.Context) (index uint64, began time.Time, err error) {
	r.mu.Lock()
	if r.next == nil {
		r.next = &round{done: make(chan struct{})}
	}
	own := r.next
	if !r.running {
		r.running = true
		go r.loop()
	}
	r.mu.Unlock()
	select {
	case <-own.done:
		return own.index, own.began, own.err
	case <-ctx.Done():
		return 0, time.Time{}, context.Cause(ctx)
	}
}

// loop does rounds until nobody waits.
func (r *rounds) loop() {
	for {
		r.mu.Lock()
		now := r.next
		r.next, r.running = nil, now != nil
		r.mu.Unlock()
		if now == nil {
			return
		}
		now.began = time.Now()
		now.index, now.err = r.run(context.Background())
		close(now.done)
	}
}

// findIndex asks the leader for the index that a read must wait for.
func (r *reads) findIndex(context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(r.n.ctx, r.n.o.RPCTimeout)
	defer cancel()
	answer, err := r.n.ask(ctx, callIndex, nil, "")
	if err != nil {
		return 0, err
	}
	d := decoder{b: answer}
	return d.readNumber(), d.wrap("index")
}

// readIndex is the index for a read of any node. Only the leader knows it.
func (r *reads) readIndex(ctx context.Context) (uint64, error) {
	index, _, err := r.leading.find(ctx)
	return index, err
}

// leadIndex does a round of readIndex: the commit index, once the leader knows it, and then the proof
// that it still led when that was asked (Ongaro's thesis, 6.4).
func (r *reads) leadIndex(context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(r.n.ctx, 4*r.n.o.Heartbeat)
	defer cancel()
	term := r.n.raft.CurrentTerm()
	if r.n.raft.State() != raft.Leader {
		return 0, errNotLeader
	}
	// Until an entry of this term is committed, the leader doesn't know which older ones are.
	if r.ready.Load() != term {
		if err := classify(r.n.await(ctx, r.n.raft.Barrier(r.n.o.RPCTimeout))); err != nil {
			return 0, errors.Join(errNotLeader, err)
		}
		r.ready.Store(term) // if the term has changed, the check below fails
	}
	index := r.n.raft.CommitIndex()
	if err := r.confirmTerm(ctx, term, ""); err != nil {
		return 0, errors.Join(errNotLeader, err)
	}
	return index, nil
}

// confirmTerm returns nil if no node can have led in a later term before the call: a quorum of voters,
// but for one that is left out, answers that it is in this term or an older one. A later leader needs
// the votes of a quorum, so one of those who have answered must vote for it after that.
//
// It does not call raft.VerifyLeader. That counts voters and others alike, and answers to heartbeats
// that were sent before it was called: a leader that was paused takes those for new ones.
func (r *reads) confirmTerm(ctx context.Context, term uint64, without raft.ServerID) error {
	ctx, cancel := context.WithTimeout(ctx, r.n.o.Heartbeat)
	defer cancel()
	voters, need := 0, 0
	servers := r.n.raft.GetConfiguration().Configuration().Servers
	answers := make(chan bool, len(servers))
	for _, s := range servers {
		if s.Suffrage != raft.Voter || s.ID == without {
			continue
		}
		voters++
		if s.ID == raft.ServerID(r.n.o.ID) {
			need-- // it answers below
			continue
		}
		// Not cancelled when others have answered: that would cost its connection.
		go func() { answers <- r.n.peers.confirm(r.n.ctx, s.Address, r.n.o.Heartbeat, term) }()
	}
	for need += voters/2 + 1; need > 0; {
		select {
		case ok := <-answers:
			if ok {
				need--
			}
		case <-ctx.Done():
			return fmt.Errorf("replicated: no quorum has answered: %w", context.Cause(ctx))
		}
	}
	if r.n.raft.CurrentTerm() != term || r.n.raft.State() != raft.Leader {
		return errNotLeader
	}
	return nil
}

// waitApplied waits until the state has all commands up to index.
func (r *reads) waitApplied(ctx context.Context, index uint64) error {
	for {
		// Invariant: what is served has all that is committed up to index. Only what is committed
		// may tell which entries the machine never sees.
		r.mu.Lock()
		done := r.done
		if r.bell == nil {
			r.bell = make(chan struct{})
		}
		bell := r.bell
		r.mu.Unlock()
		if done >= index || r.n.raft.CommitIndex() >= index && r.lastSeen(index, done) <= done {
			return nil
		}
		select {
		case <-bell:
		case <-time.After(2 * time.Millisecond): // entries that the machine does not see ring no bell
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.n.stopped:
			return r.n.Err()
		}
	}
}

// lastSeen returns the newest entry up to index that the machine sees, or done if there is none above
// it. Raft keeps those of a new leader and barriers to itself.
func (r *reads) lastSeen(index, done uint64) uint64 {
	for ; index > done; index-- {
		var l raft.Log
		if err := r.n.log.Store.GetLog(index, &l); err != nil {
			return index // it is being deleted: the snapshot has it
		}
		if l.Type == raft.LogCommand || l.Type == raft.LogConfiguration {
			return index
		}
	}
	return done
}

// Watch yields what is done, as brock.DB.Watch does, in the keyspaces that are there when it begins. It
// ends with ErrReplaced when a snapshot replaces the state: Positions belong to one state of one node.
func (n *Node) Watch(ctx context.Context, o brock.WatchOptions) iter.Seq2[*brock.Commit, error] {
	return func(yield func(*brock.Commit, error) bool) {
		s, err := n.acquire()
		if err != nil {
			yield(nil, err)
			return
		}
		n.release(s) // it may be closed under a Watch
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.gone, cancel)()
		defer context.AfterFunc(n.ctx, cancel)()
		o.Buffered = true // the log is on the disk
		o.Keyspaces = []*brock.Keyspace{s.db.Default()}
		for k := range s.db.Keyspaces() {
			if k != s.own {
				o.Keyspaces = append(o.Keyspaces, k)
			}
		}
		for c, err := range s.db.Watch(ctx, o) {
			switch {
			case err == nil:
			case n.Err() != nil:
				err = n.Err()
			case s.gone.Err() != nil:
				err = fmt.Errorf("%w: %w", ErrReplaced, err)
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// Digest returns a digest of all keys, with values, versions, expiry and sessions, and the index of the
// last command in it. Of two nodes that have the same index it is the same.
func (n *Node) Digest(ctx context.Context) (index uint64, digest [sha256.Size]byte, err error) {
	s, err := n.acquire()
	if err != nil {
		return 0, digest, err
	}
	defer n.release(s)
	snapshot, err := s.db.Snapshot()
	if err != nil {
		return 0, digest, n.explain(s, err)
	}
	defer snapshot.Close()
	h := sha256.New()
	err = snapshot.View(ctx, func(txn *brock.Txn) error {
		for _, k := range append([]*brock.Keyspace{s.db.Default()}, slices.Collect(s.db.Keyspaces())...) {
			h.Write(appendBytes(nil, []byte(k.Name())))
			for item, err := range txn.In(k).All() {
				if err != nil {
					return err
				}
				value, err := item.Value()
				if err != nil {
					return err
				}
				b := appendBytes(appendBytes(nil, item.Key()), value)
				b = binary.AppendUvarint(append(b, item.Meta()), item.Version())
				h.Write(binary.AppendVarint(b, item.ExpiresAt().UnixMilli()))
			}
		}
		return nil
	})
	return snapshot.Version(), [sha256.Size]byte(h.Sum(nil)), n.explain(s, err)
}
