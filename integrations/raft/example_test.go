package raftstore_test

import (
	"fmt"
	"log"
	"os"

	raftstore "github.com/brockdb/brock/integrations/raft"
	"github.com/hashicorp/raft"
)

// startNode starts a node whose log, votes and snapshots lie below dir.
func startNode(dir string, fsm raft.FSM, net raft.Transport, conf *raft.Config) (*raft.Raft, *raftstore.Store, error) {
	store, err := raftstore.Open(dir+"/log", raftstore.Options{})
	if err != nil {
		return nil, nil, err
	}
	snaps, err := raft.NewFileSnapshotStore(dir, 2, os.Stderr)
	if err != nil {
		return nil, nil, err
	}
	if list, err := snaps.List(); err == nil && len(list) > 0 {
		if err := store.DropStale(list[0].Index); err != nil {
			return nil, nil, err
		}
	}
	node, err := raft.NewRaft(conf, fsm, store, store, snaps, net)
	return node, store, err
}

func Example() {
	dir, err := os.MkdirTemp("", "raft")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := raftstore.Open(dir+"/log", raftstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	for i := uint64(1); i <= 3; i++ {
		if err := store.StoreLog(&raft.Log{Index: i, Term: 1, Data: fmt.Append(nil, "set ", i)}); err != nil {
			log.Fatal(err)
		}
	}
	if err := store.DeleteRange(1, 1); err != nil { // as after a snapshot
		log.Fatal(err)
	}
	first, _ := store.FirstIndex()
	last, _ := store.LastIndex()
	var entry raft.Log
	if err := store.GetLog(last, &entry); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d to %d, the last one is %q\n", first, last, entry.Data)
	// Output: 2 to 3, the last one is "set 3"
}
