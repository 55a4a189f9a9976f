package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	raftstore "github.com/brockdb/brock/integrations/raft"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"github.com/hashicorp/raft-wal/migrate"
	raftbench "github.com/hashicorp/raft/bench"
)

// TestCompare does a little of each row.
func TestCompare(t *testing.T) {
	var out strings.Builder
	if err := compare(&out, cells(100), t.TempDir(), time.Millisecond, 1, 0.5, ""); err != nil {
		t.Fatal(err)
	}
	if rows := strings.Count(out.String(), "\n"); rows != 2+len(cells(100)) {
		t.Errorf("%d rows:\n%s", rows, &out)
	}
	if strings.Contains(out.String(), "NaN") || strings.Contains(out.String(), "Inf") {
		t.Errorf("a row has no figure:\n%s", &out)
	}
}

// TestComeAndGo copies a node's log and votes from raft-boltdb, and back, by raft-wal's package migrate.
func TestComeAndGo(t *testing.T) {
	old, err := raftboltdb.NewBoltStore(filepath.Join(t.TempDir(), "raft.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	var logs []*raft.Log
	for i := uint64(17); i < 3000; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: i / 100, Data: fmt.Appendf(nil, "command %d", i), AppendedAt: time.Unix(int64(i), 5)})
	}
	err = errors.Join(old.StoreLogs(logs), old.SetUint64([]byte("CurrentTerm"), 29),
		old.SetUint64([]byte("LastVoteTerm"), 28), old.Set([]byte("LastVoteCand"), []byte("node-2")))
	if err != nil {
		t.Fatal(err)
	}
	here, err := raftstore.Open(filepath.Join(t.TempDir(), "log"), raftstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	back, err := raftboltdb.NewBoltStore(filepath.Join(t.TempDir(), "raft.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	type node interface {
		raft.LogStore
		raft.StableStore
	}
	for _, copied := range []struct{ to, from node }{{here, old}, {back, here}} {
		err := errors.Join(migrate.CopyLogs(context.Background(), copied.to, copied.from, 64<<10, nil),
			migrate.CopyStable(context.Background(), copied.to, copied.from, nil, nil, nil))
		if err != nil {
			t.Fatal(err)
		}
		first, _ := copied.to.FirstIndex()
		last, _ := copied.to.LastIndex()
		if first != 17 || last != 2999 {
			t.Fatalf("%d to %d", first, last)
		}
		for _, want := range logs {
			var got raft.Log
			if err := copied.to.GetLog(want.Index, &got); err != nil {
				t.Fatal(err)
			}
			if got.Index != want.Index || got.Term != want.Term || string(got.Data) != string(want.Data) || !got.AppendedAt.Equal(want.AppendedAt) {
				t.Fatalf("%+v, was %+v", got, want)
			}
		}
		term, err := copied.to.GetUint64([]byte("CurrentTerm"))
		vote, err2 := copied.to.Get([]byte("LastVoteCand"))
		if err != nil || err2 != nil || term != 29 || string(vote) != "node-2" {
			t.Fatalf("term %d %v, vote %q %v", term, err, vote, err2)
		}
	}
}

// plusOne lets raft's benchmarks begin at index 0, which no log of raft has.
type plusOne struct{ *raftstore.Store }

func (p plusOne) StoreLog(l *raft.Log) error { return p.StoreLogs([]*raft.Log{l}) }

func (p plusOne) StoreLogs(logs []*raft.Log) error {
	for _, l := range logs {
		l.Index++
	}
	return p.Store.StoreLogs(logs)
}

func (p plusOne) GetLog(index uint64, l *raft.Log) error { return p.Store.GetLog(index+1, l) }

func (p plusOne) DeleteRange(lowest, highest uint64) error {
	return p.Store.DeleteRange(lowest+1, highest+1)
}

// BenchmarkRaft runs the benchmarks that raft has for stores, on Brock and raft-boltdb. Their logs have
// gaps, which raft-wal refuses.
func BenchmarkRaft(b *testing.B) {
	logs := map[string]func(*testing.B, raft.LogStore){
		"FirstIndex": raftbench.FirstIndex, "LastIndex": raftbench.LastIndex, "GetLog": raftbench.GetLog,
		"StoreLog": raftbench.StoreLog, "StoreLogs": raftbench.StoreLogs, "DeleteRange": raftbench.DeleteRange,
	}
	stable := map[string]func(*testing.B, raft.StableStore){
		"Set": raftbench.Set, "Get": raftbench.Get,
		"SetUint64": raftbench.SetUint64, "GetUint64": raftbench.GetUint64,
	}
	type node interface {
		logStore
		raft.StableStore
	}
	for _, p := range []struct {
		name string
		open func(dir string) (node, error)
	}{
		{"brock", func(dir string) (node, error) {
			s, err := raftstore.Open(dir, raftstore.Options{AllowGaps: true})
			return plusOne{s}, err
		}},
		{"raft-boltdb", func(dir string) (node, error) { return raftboltdb.NewBoltStore(filepath.Join(dir, "raft.db")) }},
	} {
		run := func(name string, fn func(b *testing.B, n node)) {
			b.Run(name+"/"+p.name, func(b *testing.B) {
				dir, err := os.MkdirTemp("", "raft-bench")
				if err != nil {
					b.Fatal(err)
				}
				defer os.RemoveAll(dir)
				n, err := p.open(dir)
				if err != nil {
					b.Fatal(err)
				}
				fn(b, n)
				b.StopTimer()
				if err := n.Close(); err != nil {
					b.Fatal(err)
				}
			})
		}
		for name, fn := range logs {
			run(name, func(b *testing.B, n node) { fn(b, n) })
		}
		for name, fn := range stable {
			run(name, func(b *testing.B, n node) { fn(b, n) })
		}
	}
}
