//go:build unix

package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestPausedLeader pauses the process that leads until another one leads and writes. When it goes on,
// it finds answers to its old heartbeats. It must not serve what it has as the newest.
func TestPausedLeader(t *testing.T) {
	g, err := startGroup(t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	defer g.stop()
	rounds := 3
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		if _, err := g.ask("n1", fmt.Sprintf("set k old%d", round)); err != nil {
			t.Fatal(err)
		}
		answer, err := g.ask("n1", "status")
		if err != nil {
			t.Fatal(err)
		}
		leader, _, _ := strings.Cut(strings.TrimPrefix(answer, "leader "), ",")
		other := "n1"
		if leader == other {
			other = "n2"
		}
		if _, err := g.ask(leader, "get k"); err != nil {
			t.Fatal(err)
		}
		pid := g.nodes[leader].cmd.Process.Pid
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		for {
			if _, err = g.ask(other, fmt.Sprintf("set k new%d", round)); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		// The question lies in its pipe when it goes on.
		if _, err := fmt.Fprintln(g.nodes[leader].in, "get k"); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		answer, err = g.nodes[leader].out.ReadString('\n')
		if err != nil || !strings.HasPrefix(answer, fmt.Sprintf("new%d (", round)) {
			t.Errorf("the leader that was paused reads %q, %v", answer, err)
		}
	}
}
