package raftstore_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	raftstore "github.com/brockdb/brock/integrations/raft"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// startNode starts a node whose log, votes and snapshots lie below dir.
func startNode(dir string, fsm raft.FSM, net raft.Transport, conf *raft.Config) (*raft.Raft, *raftstore.Store, error) {
	store, err := raftstore.Open(dir+"/log", raftstore.Options{})
	if err != nil {
		return nil, nil, err
	}
	snaps, err := raft.NewFileSnapshotStore(dir, 2, io.Discard)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	node, err := raft.NewRaft(conf, fsm, store, store, snaps, net)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return node, store, nil
}

// counter is a state machine that counts commands.
type counter struct{ n int }

func (c *counter) Apply(*raft.Log) any                 { c.n++; return c.n }
func (c *counter) Snapshot() (raft.FSMSnapshot, error) { return nil, errors.New("not needed here") }
func (c *counter) Restore(io.ReadCloser) error         { return errors.New("not needed here") }

func Example() {
	dir, err := os.MkdirTemp("", "raft")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	conf := raft.DefaultConfig()
	conf.LocalID, conf.Logger = "node", hclog.NewNullLogger()
	conf.HeartbeatTimeout, conf.ElectionTimeout = 50*time.Millisecond, 50*time.Millisecond
	conf.LeaderLeaseTimeout = 50 * time.Millisecond
	for run := 1; run <= 2; run++ { // the second run finds the log of the first one
		address, net := raft.NewInmemTransport("node")
		node, store, err := startNode(dir, &counter{}, net, conf)
		if err != nil {
			fmt.Println(err)
			return
		}
		if run == 1 {
			members := raft.Configuration{Servers: []raft.Server{{ID: "node", Address: address}}}
			if err := node.BootstrapCluster(members).Error(); err != nil {
				fmt.Println(err)
			}
		}
		<-node.LeaderCh()
		for range 3 {
			f := node.Apply([]byte("one more"), 0)
			if f.Error() == nil {
				fmt.Println(f.Response())
			}
		}
		if err := errors.Join(node.Shutdown().Error(), store.Close()); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// 1
	// 2
	// 3
	// 4
	// 5
	// 6
}
