package replicated

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/brockdb/brock"
	"github.com/hashicorp/raft"
)

// ticket is a session that a caller of Apply uses.
type ticket struct{ id, sequence uint64 }

// Apply does a command on all nodes, and returns its version. It may be called on any node. When it
// returns nil the command is on the disks of a majority, in the state of the leader, and every later
// View sees it. It is done once, however often it had to be sent.
//
// Expiry goes by the clock of the group: the greatest time that a sender's clock had at a command so
// far. So an idle group expires nothing, and clocks should agree.
//
// It returns ErrConflict if a condition does not hold; brock.ErrInvalid, and ErrStopped if it was not
// sent; else an error that is ErrUnknown too, if it was sent: the command may be done, also later.
func (n *Node) Apply(ctx context.Context, c *Command) (version uint64, err error) {
	if err := n.makeKeyspaces(ctx, c); err != nil {
		return 0, err
	}
	for {
		t, err := n.takeSession(ctx)
		if err != nil {
			return 0, err
		}
		t.sequence++
		e := entry{Command: *c, kind: kindWrite, session: t.id, sequence: t.sequence, time: uint64(max(time.Now().UnixMilli(), 0))}
		b := e.encode()
		// What a node would refuse must not get into the log.
		if _, err := decodeEntry(b); err != nil {
			t.sequence--
			n.putSession(t)
			return 0, err
		}
		r, sent, err := n.send(ctx, b)
		switch {
		case err != nil && sent:
			return 0, fmt.Errorf("%w: %w", ErrUnknown, err)
		case err != nil:
			return 0, err
		case r.lost && sent: // it may have been done before its session was forgotten
			return 0, ErrUnknown
		case r.lost:
			continue
		}
		n.putSession(t)
		if !r.holds {
			return r.index, ErrConflict
		}
		return r.index, nil
	}
}

// makeKeyspaces makes the keyspaces that a command writes to and this node does not have.
func (n *Node) makeKeyspaces(ctx context.Context, c *Command) error {
	s, err := n.acquire()
	if err != nil {
		return err
	}
	defer n.release(s)
	var names []string
	for i := range c.Operations {
		names = addName(names, c.Operations[i].Keyspace)
	}
	for _, name := range names {
		if s.keyspace(name) != nil {
			continue
		}
		b := (&entry{kind: kindKeyspace, name: name}).encode()
		if _, err := decodeEntry(b); err != nil {
			return err
		}
		r, _, err := n.send(ctx, b)
		if err == nil && !r.holds {
			err = fmt.Errorf("replicated: more than %d keyspaces: %w", MaxKeyspaces, brock.ErrInvalid)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// takeSession returns a session, which the caller has alone.
func (n *Node) takeSession(ctx context.Context) (*ticket, error) {
	n.mu.Lock()
	if last := len(n.idle) - 1; last >= 0 {
		t := n.idle[last]
		n.idle = n.idle[:last]
		n.mu.Unlock()
		return t, nil
	}
	n.mu.Unlock()
	e := entry{kind: kindSession, time: uint64(max(time.Now().UnixMilli(), 0))}
	r, _, err := n.send(ctx, e.encode())
	return &ticket{id: r.index}, err
}

// putSession gives a session back, whose last command has an answer.
func (n *Node) putSession(t *ticket) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.idle) < maxSessions/16 {
		n.idle = append(n.idle, t)
	}
}

// send sends a command to the leader until there is an answer. sent reports whether it may be in the
// log by an attempt without an answer.
func (n *Node) send(ctx context.Context, b []byte) (r result, sent bool, err error) {
	answer, sent, err := n.askLeader(ctx, callPropose, b, "")
	if err != nil {
		return r, sent, err
	}
	r, err = decodeResult(answer)
	return r, sent || err != nil, err // an answer that can't be read says that it was sent
}

// ask is askLeader for what may be done twice.
func (n *Node) ask(ctx context.Context, kind byte, body []byte, seed raft.ServerAddress) ([]byte, error) {
	answer, _, err := n.askLeader(ctx, kind, body, seed)
	return answer, err
}

// askLeader asks the leader, whoever it is, until it answers. seed is a node to ask while none is
// known. sent reports whether an attempt without an answer may have reached a leader.
func (n *Node) askLeader(ctx context.Context, kind byte, body []byte, seed raft.ServerAddress) (answer []byte, sent bool, err error) {
	var hint raft.ServerAddress
	for wait := time.Millisecond; ; wait = min(2*wait, n.o.Heartbeat/4) {
		address := hint
		if address == "" {
			address, _ = n.raft.LeaderWithID()
		}
		if address == "" {
			address = seed
		}
		status, answer, reason := byte(statusNoLeader), []byte(nil), error(nil)
		switch {
		case address == "":
		case address == n.address():
			status, answer = n.answer(ctx, kind, body)
		default:
			if status, answer, reason = n.peers.call(ctx, address, kind, body); reason != nil {
				status, answer = statusNoLeader, nil
				sent = sent || !errors.Is(reason, errNotSent)
			}
		}
		hint = ""
		switch status {
		case statusDone:
			return answer, sent, nil
		case statusRefused:
			if e := n.Err(); e != nil {
				return nil, sent, e
			}
			return nil, sent, fmt.Errorf("%w: %s", errRefused, answer)
		case statusNoLeader:
			hint = raft.ServerAddress(answer)
		default:
			sent = true
		}
		select {
		case <-ctx.Done():
			return nil, sent, errors.Join(context.Cause(ctx), reason)
		case <-n.stopped:
			return nil, sent, n.Err()
		case <-time.After(wait/2 + rand.N(wait)):
		}
	}
}

// propose puts a command into the log. Only the leader can.
func (n *Node) propose(ctx context.Context, b []byte) (result, error) {
	if _, err := decodeEntry(b); err != nil {
		return result{}, fmt.Errorf("%w: %w", errRefused, err)
	}
	if n.raft.State() != raft.Leader {
		return result{}, errNotLeader
	}
	f := n.raft.Apply(b, n.o.RPCTimeout)
	if err := classify(n.await(ctx, f)); err != nil {
		return result{}, err
	}
	r, ok := f.Response().(result)
	if !ok {
		return result{}, errors.New("replicated: an entry without a result")
	}
	return r, nil
}

// classify returns errNotLeader for errors after which nothing was done.
func classify(err error) error {
	for _, e := range []error{raft.ErrNotLeader, raft.ErrLeadershipTransferInProgress, raft.ErrEnqueueTimeout} {
		if errors.Is(err, e) {
			return errNotLeader
		}
	}
	return err
}

// Txn is the transaction of an Update. It reads one version of the state, and its own writes. Its methods
// address one keyspace, the default one at first.
type Txn struct {
	*update
	keyspace string
}

// update is what the Txns of all keyspaces share.
type update struct {
	reader  *Reader
	command Command
	read    map[place]bool
	written map[place]Operation
}

// place is a key in a keyspace.
type place struct{ keyspace, key string }

// In returns the transaction for another keyspace; "" is the default one. A write makes one that is not
// there.
func (t *Txn) In(keyspace string) *Txn { return &Txn{t.update, keyspace} }

// Get returns the value of a key, in new memory, or brock.ErrKeyNotFound. The commit depends on it: it
// is refused if the key is set or deleted meanwhile.
func (t *Txn) Get(key []byte) ([]byte, error) {
	at := place{t.keyspace, string(key)}
	if o, ok := t.written[at]; ok {
		if o.Kind == OpDelete {
			return nil, brock.ErrKeyNotFound
		}
		return append([]byte{}, o.Value...), nil
	}
	var item *brock.Item
	txn, err := t.reader.In(t.keyspace)
	if err == nil {
		item, err = txn.Get(key)
	}
	if errors.Is(err, brock.ErrKeyspaceNotFound) {
		err = brock.ErrKeyNotFound
	}
	if err != nil && !errors.Is(err, brock.ErrKeyNotFound) {
		return nil, err
	}
	if !t.read[at] {
		t.read[at] = true
		c := Condition{Keyspace: t.keyspace, Key: append([]byte{}, key...)}
		if err == nil {
			c.Version = item.Version()
		}
		t.command.Conditions = append(t.command.Conditions, c)
	}
	if err != nil {
		return nil, err
	}
	return item.ValueCopy(nil)
}

// Range yields the keys in [lo, hi); a nil hi is no bound. It does not see the writes of the Txn. An item
// is valid until the next one. The commit depends on it: it is refused if anything in the range, as far as
// it was walked, has changed. More than MaxRange keys are brock.ErrInvalid.
func (t *Txn) Range(lo, hi []byte) iter.Seq2[*brock.Item, error] {
	return func(yield func(*brock.Item, error) bool) {
		c := Condition{Keyspace: t.keyspace, Key: append([]byte{}, lo...), Upper: bytes.Clone(hi), Range: true, Version: t.reader.ReadVersion()}
		defer func() { t.command.Conditions = append(t.command.Conditions, c) }()
		txn, err := t.reader.In(t.keyspace)
		if err != nil {
			return // there is no such keyspace, and no keys in it
		}
		for item, err := range txn.Range(lo, hi) {
			if errors.Is(err, brock.ErrKeyspaceNotFound) { // it is younger than the transaction
				return
			}
			if err == nil && c.Count == MaxRange {
				item, err = nil, fmt.Errorf("replicated: a range of more than %d keys: %w", MaxRange, brock.ErrInvalid)
			}
			if err == nil {
				c.Count++
			}
			var end []byte
			if err == nil {
				end = append(item.KeyCopy(nil), 0)
			}
			if !yield(item, err) || err != nil {
				if err == nil {
					c.Upper = end
				}
				return
			}
		}
	}
}

// Set sets a key. Key and value are copied.
func (t *Txn) Set(key, value []byte) {
	t.write(Operation{Kind: OpSet, Key: append([]byte{}, key...), Value: append([]byte{}, value...)})
}

// Delete deletes a key, which is copied.
func (t *Txn) Delete(key []byte) { t.write(Operation{Kind: OpDelete, Key: append([]byte{}, key...)}) }

func (t *Txn) write(o Operation) {
	o.Keyspace = t.keyspace
	t.command.Operations = append(t.command.Operations, o)
	t.written[place{t.keyspace, string(o.Key)}] = o
}

// Update runs fn, and does what it has written if nothing that it has read has changed; else it runs fn
// again. So fn must have no other effects. It returns the version; 0 if fn has written nothing: then
// what it has read was the newest state. Errors are those of fn and Apply, but for ErrConflict.
func (n *Node) Update(ctx context.Context, fn func(t *Txn) error) (version uint64, err error) {
	for wait := time.Millisecond; ; wait = min(2*wait, n.o.Heartbeat/4) {
		t := &Txn{update: &update{read: map[place]bool{}, written: map[place]Operation{}}}
		err := n.View(ctx, Newest, func(r *Reader) error {
			t.reader = r
			return fn(t)
		})
		if err != nil || len(t.command.Operations) == 0 {
			return 0, err
		}
		if version, err = n.Apply(ctx, &t.command); !errors.Is(err, ErrConflict) {
			return version, err
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(rand.N(wait)):
		}
	}
}
