package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
)

func TestMain(m *testing.M) {
	if command := os.Getenv("SEARCH_COMMAND"); command != "" { // a process that is killed
		fmt.Println(run(context.Background(), []string{command}))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// start runs a command in a process of its own, and returns what kills it.
func start(t *testing.T, command string) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SEARCH_COMMAND="+command)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		_ = cmd.Process.Kill()
		if err := cmd.Wait(); err == nil || cmd.ProcessState.Exited() {
			t.Fatalf("%s has ended by itself: %v\n%s", command, err, &said)
		}
	}
}

// pairs shows all that an index has.
func pairs(t *testing.T, ix *inverted) (list []string) {
	t.Helper()
	ks, err := ix.db.Keyspace("index")
	if err == nil {
		err = ks.View(func(txn *brock.Txn) error {
			for item, err := range txn.All() {
				if err != nil {
					return err
				}
				value, err := item.Value()
				if err != nil {
					return err
				}
				list = append(list, fmt.Sprintf("%x %s", item.Key(), value))
			}
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestKilledIndexer: the indexer is killed at random moments, and at last the writer. The index is
// the one that is made of the documents from scratch, and it finds what a reader of all documents
// finds.
func TestKilledIndexer(t *testing.T) {
	t.Chdir(t.TempDir())
	killWriter := start(t, "write")
	for range 8 {
		kill := start(t, "index")
		<-time.After(time.Duration(50+rand.IntN(500)) * time.Millisecond)
		kill()
	}
	killWriter()

	docs, err := brock.Open(brock.Options{Dir: docsDir, Mode: brock.Follow})
	if err != nil {
		t.Fatal(err)
	}
	defer docs.Close()
	var lists [][]string
	for _, dir := range []string{indexDir, "scratch.db"} {
		ix, err := openIndex(brock.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		before, err := ix.db.Get(positionKey)
		if dir == indexDir && err != nil {
			t.Errorf("the killed indexers have done nothing: %v", err)
		}
		var last brock.Position
		if err := ix.follow(t.Context(), docs, func(c *brock.Commit) bool {
			last = c.Position()
			return !c.Caught
		}); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: from position %q to %v", dir, before, last)
		lists = append(lists, pairs(t, ix))
		compare(t, ix, docs)
		if err := ix.db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(lists[0], lists[1]) {
		t.Errorf("the index has %d entries, one from scratch %d, and they differ", len(lists[0]), len(lists[1]))
	}
	if len(lists[0]) < 100 {
		t.Errorf("the index has only %d entries", len(lists[0]))
	}
	if err := query([]string{"Snow", "river"}); err != nil {
		t.Error(err)
	}
}

// compare searches in the index and in the documents.
func compare(t *testing.T, ix *inverted, docs *brock.DB) {
	t.Helper()
	for _, all := range []words{{"snow"}, {"river", "snow"}, {"falls", "light", "night"}, {"nowhere"}} {
		got, err := ix.search(all)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		err = docs.View(func(txn *brock.Txn) error {
			for item, err := range txn.All() {
				if err != nil {
					return err
				}
				text, err := item.Value()
				if err != nil {
					return err
				}
				if has := split(string(text)); !slices.ContainsFunc(all, func(w string) bool { return !slices.Contains(has, w) }) {
					n++
				}
			}
			return nil
		})
		if err != nil || n != len(got) {
			t.Errorf("%q: the index finds %d documents, and there are %d: %v", all, len(got), n, err)
		}
	}
}
