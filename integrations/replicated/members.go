package replicated

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// Member is a node of a group.
type Member struct {
	ID      string
	Address string
	Voter   bool // else it only reads
}

// The kinds of a change.
const (
	changeAdd    = 1
	changeVoter  = 2
	changeRemove = 3
)

// Bootstrap begins a group, of which this node is the only member. Call it once in the life of a group:
// others Join. In a node that has a group it does nothing. A node that has lost its directory has none,
// and would begin another group.
func (n *Node) Bootstrap(ctx context.Context) error {
	self := raft.Server{ID: raft.ServerID(n.o.ID), Address: n.address()}
	err := n.await(ctx, n.raft.BootstrapCluster(raft.Configuration{Servers: []raft.Server{self}}))
	if errors.Is(err, raft.ErrCantBootstrap) {
		return nil
	}
	return err
}

// Join adds this node to the group of the node at address: first as one that reads, and once it has
// caught up, if asked, as one that votes. It can be called again, also after a restart, and must be if
// the node's address has changed. A node that has lost its directory is not the member that it was:
// Join fails until that one was removed.
func (n *Node) Join(ctx context.Context, address string, voter bool) error {
	seed := raft.ServerAddress(address)
	if _, err := n.ask(ctx, callChange, changeBody(changeAdd, n.o.ID, string(n.address())), seed); err != nil {
		return err
	}
	// Caught up: it has what the leader had less than a heartbeat ago.
	for caught := false; !caught; {
		answer, err := n.ask(ctx, callIndex, nil, seed)
		if err != nil {
			return err
		}
		d := decoder{b: answer}
		began := time.Now()
		if err := n.reads.waitApplied(ctx, d.readNumber()); err != nil {
			return err
		}
		caught = time.Since(began) < n.o.Heartbeat
	}
	if !voter {
		return nil
	}
	_, err := n.ask(ctx, callChange, changeBody(changeVoter, n.o.ID, string(n.address())), seed)
	return err
}

// Remove removes a member. A voter is removed only if a quorum of the rest answers. A node that was
// removed must not come back with what it has: delete its directory.
func (n *Node) Remove(ctx context.Context, id string) error {
	_, err := n.ask(ctx, callChange, changeBody(changeRemove, id, ""), "")
	return err
}

func changeBody(kind byte, id, address string) []byte {
	return appendBytes(appendBytes([]byte{kind}, []byte(id)), []byte(address))
}

// change changes the members. Only the leader can.
func (n *Node) change(ctx context.Context, kind byte, id, address string) error {
	if n.raft.State() != raft.Leader {
		return errNotLeader
	}
	server, timeout := raft.ServerID(id), n.o.RPCTimeout
	at, known := n.member(server)
	var f raft.Future
	switch {
	case id == "" || kind != changeRemove && address == "":
		return fmt.Errorf("%w: a member needs ID and address", errRefused)
	case kind != changeRemove && known && !sameBirth(at.Address, raft.ServerAddress(address)):
		return fmt.Errorf("%w: %s is a member with another directory: remove it first", errRefused, id)
	case kind == changeAdd:
		f = n.raft.AddNonvoter(server, raft.ServerAddress(address), 0, timeout)
	case kind == changeVoter && !known:
		return fmt.Errorf("%w: %s must join before it votes", errRefused, id)
	case kind == changeVoter:
		f = n.raft.AddVoter(server, raft.ServerAddress(address), 0, timeout)
	case kind == changeRemove && !known:
		// It may be gone from the configuration, but not for certain: if another leader comes, that
		// one may still count its vote.
		f = n.raft.Barrier(timeout)
	case kind == changeRemove:
		if at.Suffrage == raft.Voter {
			if err := n.reads.confirmTerm(ctx, n.raft.CurrentTerm(), server); err != nil {
				return fmt.Errorf("%w: without %s there is no quorum: %w", errRefused, id, err)
			}
		}
		f = n.raft.RemoveServer(server, 0, timeout)
	default:
		return fmt.Errorf("%w: a change of kind %d", errRefused, kind)
	}
	return classify(n.await(ctx, f))
}

func sameBirth(a, b raft.ServerAddress) bool {
	_, x := splitAddress(a)
	_, y := splitAddress(b)
	return x == y && x != anyone
}

// member returns a member by its ID.
func (n *Node) member(id raft.ServerID) (raft.Server, bool) {
	for _, s := range n.raft.GetConfiguration().Configuration().Servers {
		if s.ID == id {
			return s, true
		}
	}
	return raft.Server{}, false
}
