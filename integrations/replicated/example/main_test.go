package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

// TestMain is also the processes of the tests.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "node" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestDemo runs the demonstration, at whose end the nodes are compared.
func TestDemo(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"demo"}, strings.NewReader(""), &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	t.Log("\n" + out.String())
	if !strings.Contains(out.String(), "blue (version") || !strings.Contains(out.String(), "all have the same") {
		t.Error("the value is not there")
	}
}

// TestInteract gives a script to the command.
func TestInteract(t *testing.T) {
	var out bytes.Buffer
	script := "help\nn2 set a 1\nn3 get a\nkill n1\nn1 status\nn2 set a 2\nn3 get a\nstart n1\nn1 get a\nnonsense\nn2 nonsense\nquit\n"
	if err := run(nil, strings.NewReader(script), &out); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "> 2 (version"); n != 2 {
		t.Errorf("the new value is shown %d times:\n%s", n, &out)
	}
}

// TestKills kills processes at any moment while commands go on. What was acknowledged stays, on all.
func TestKills(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	g, err := startGroup(t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	defer g.stop()
	rounds, kills := 8, 0
	if testing.Short() {
		rounds = 3
	}
	acknowledged := map[string]string{}
	for round := range rounds {
		// Two lines are under way in two processes when one of them is killed.
		for i := range 200 {
			id := g.order[rng.IntN(3)]
			key, value := fmt.Sprintf("k%d", rng.IntN(50)), fmt.Sprintf("%d.%d", round, i)
			if _, err := g.ask(id, "set "+key+" "+value); err != nil {
				t.Fatalf("set: %v", err)
			}
			acknowledged[key] = value
		}
		victim, after := g.order[rng.IntN(3)], time.Duration(rng.IntN(3000))*time.Microsecond
		p := g.nodes[victim]
		fmt.Fprintln(p.in, "set killed yes") // nobody waits for the answer
		time.Sleep(after)
		if err := g.kill(victim); err != nil {
			t.Fatal(err)
		}
		kills++
		for i := range 20 {
			id := g.order[rng.IntN(3)]
			if id == victim {
				continue
			}
			key, value := fmt.Sprintf("k%d", rng.IntN(50)), fmt.Sprintf("%d.after.%d", round, i)
			if _, err := g.ask(id, "set "+key+" "+value); err != nil {
				t.Fatalf("set after the kill: %v", err)
			}
			acknowledged[key] = value
		}
		if err := g.start(victim); err != nil {
			t.Fatal(err)
		}
		for key, value := range acknowledged {
			answer, err := g.ask(victim, "get "+key)
			if err != nil || !strings.HasPrefix(answer, value+" (") {
				t.Fatalf("%s after %d kills: %s is %q, %v, want %q", victim, kills, key, answer, err, value)
			}
		}
	}
	if _, err := g.compare(); err != nil {
		t.Error(err)
	}
}
