package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/brockdb/brock"
)

// livingWriter is a process that commits to a store as fast as it can. Each of its writers
// counts: a commit sets the count, and keys that have the count in their name.
type livingWriter struct {
	mu    sync.Mutex
	acked map[string]int // by writer
	some  chan struct{}  // gets one after each 50 commits
}

func startWriter(t *testing.T, dir string, store ...string) *livingWriter {
	t.Helper()
	w := &livingWriter{acked: map[string]int{}, some: make(chan struct{}, 1)}
	cmd := process(t, dir, append([]string{"try-writer", "--seed=7"}, store...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		_ = cmd.Wait() // says that it was killed
	})
	go func() {
		defer close(ended)
		n := 0
		for lines := bufio.NewScanner(out); lines.Scan(); n++ {
			writer, count, ok := strings.Cut(lines.Text(), " ")
			if !ok {
				continue
			}
			w.mu.Lock()
			w.acked[writer], _ = strconv.Atoi(count)
			w.mu.Unlock()
			if n%50 == 0 {
				select {
				case w.some <- struct{}{}:
				default:
				}
			}
		}
	}()
	return w
}

// acknowledged returns which commits were acknowledged by now, after some more of them.
func (w *livingWriter) acknowledged() map[string]int {
	<-w.some
	<-w.some
	w.mu.Lock()
	defer w.mu.Unlock()
	acked := map[string]int{}
	for writer, n := range w.acked {
		acked[writer] = n
	}
	return acked
}

// checkPrefix checks that a store has, of each writer, the commits up to one, whole, and all of
// those that were acknowledged.
func checkPrefix(t *testing.T, dir string, acked map[string]int) {
	t.Helper()
	o := brock.Options{Dir: dir, MustExist: true}
	if file := os.Getenv("BROCK_KEY_FILE"); file != "" {
		o.Keys = keyFlag{KeyFile: file}.provider()
	}
	db, err := brock.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	err = db.View(func(txn *brock.Txn) error {
		for writer, n := range acked {
			id, _ := strconv.Atoi(writer)
			prefix := fmt.Sprintf("\xffbrock-try/kill/000/%02d/", id)
			item, err := txn.Get([]byte(prefix + "count"))
			if err != nil {
				return err
			}
			value, err := item.Value()
			if err != nil {
				return err
			}
			count, _ := strconv.Atoi(string(value))
			if count < n {
				t.Errorf("%s: writer %s has %d commits, %d were acknowledged", dir, writer, count, n)
			}
			seen := 0
			for item, err := range txn.Prefix([]byte(prefix + "txn/")) {
				if err != nil {
					return err
				}
				if _, err := item.Value(); err != nil {
					return err
				}
				number, _, _ := strings.Cut(strings.TrimPrefix(string(item.Key()), prefix+"txn/"), "/")
				at, _ := strconv.Atoi(number)
				if at != seen && at != seen+1 {
					t.Fatalf("%s: writer %s: commit %d comes after %d", dir, writer, at, seen)
				}
				seen = at
			}
			if found, err := txn.Has(fmt.Appendf(nil, "%smarker/%08d", prefix, count)); err != nil || !found || seen != count {
				t.Errorf("%s: writer %s: the count is %d, the last commit %d; marker: %t, %v", dir, writer, count, seen, found, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Errorf("%s: %v", dir, err)
	}
}

// TestBackupOfLiveStore: a process commits without a pause, flushes and merges, and beside it
// the command makes backups, increments, a repository and checkpoints. Each is a store with all
// that was acknowledged before the command began.
func TestBackupOfLiveStore(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a store can't be followed")
	}
	for _, name := range []string{"plain", "values", "encrypted"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			source := []string{"s"}
			switch name {
			case "values":
				source = append(source, "--value-dir=v")
			case "encrypted":
				t.Setenv("BROCK_KEY_FILE", filepath.Join(dir, "keys"))
				must(t, dir, "", "keygen", "keys")
			}
			copied := func(command string, args ...string) {
				must(t, dir, "", append(append([]string{command}, source...), args...)...)
			}
			copied("set", "first", "1")
			w := startWriter(t, dir, source...)
			for i := range 3 {
				to := func(kind string) string { return fmt.Sprint(kind, i) }
				acked := w.acknowledged()
				copied("backup", to("full"))
				must(t, dir, "", "restore", to("full"), to("restored"))
				checkPrefix(t, filepath.Join(dir, to("restored")), acked)

				acked = w.acknowledged()
				copied("backup", to("increment"), "--since="+to("full"))
				must(t, dir, "", "restore", to("full"), to("increment"), to("later"))
				checkPrefix(t, filepath.Join(dir, to("later")), acked)

				acked = w.acknowledged()
				copied("backup", "--repository=r")
				must(t, dir, "", "repository", "restore", "r", to("from repository"))
				checkPrefix(t, filepath.Join(dir, to("from repository")), acked)

				acked = w.acknowledged()
				copied("checkpoint", to("copy"))
				checkPrefix(t, filepath.Join(dir, to("copy")), acked)
			}
			must(t, dir, "", "repository", "verify", "r")
		})
	}
}
