package commit

import (
	"context"
	"testing"
	"time"

	"github.com/brockdb/brock/internal/conflict"
)

// Committers that are ready to run join the group of one that has company.
func TestGather(t *testing.T) {
	now := time.Unix(0, 0)
	turn := time.Microsecond
	store := new(void)
	p := New(Config{Store: store, Journal: new(void), Now: func() time.Time { now = now.Add(turn); return now }})
	a := &p.gathering

	// next leads a group while another committer is ready to run.
	next := func() {
		p.mu.Lock()
		g := p.queue.push()
		g.add(request(0, conflict.LastWriterWins, "a"))
		p.busy, g.called = true, true
		p.mu.Unlock()
		done := make(chan struct{})
		go func() {
			p.Commit(context.Background(), request(0, conflict.LastWriterWins, "b"))
			close(done)
		}()
		p.lead(g)
		<-done
	}

	a.company = 1
	before := now
	commit(t, p, request(0, conflict.LastWriterWins, "a"))
	if now != before {
		t.Error("a lone writer waited for company")
	}

	// Which goroutine runs in a turn is the scheduler's choice, so give it some.
	joined := false
	for range 1000 {
		a.company = 2
		groups := store.groups
		next()
		joined = joined || store.groups == groups+1
	}
	if !joined {
		t.Error("nobody ever joined")
	}

	turn = time.Second
	for _, want := range []int{hurryMin, 2 * hurryMin, 4 * hurryMin} {
		a.company, a.hurried = 2, 0
		next()
		// The other committer, if late, had a group of its own.
		if a.hurried != want && a.hurried != want-1 {
			t.Errorf("after a slow turn %d groups are hurried, want %d", a.hurried, want)
		}
	}
	a.hurry, a.hurried, a.company = hurryMax, 0, 2
	next()
	if a.hurry != hurryMax {
		t.Errorf("hurry grew to %d", a.hurry)
	}
	turn = time.Microsecond
	a.hurried, a.company = 0, 2
	next()
	if a.hurry != 0 {
		t.Errorf("hurry is %d after a quick turn", a.hurry)
	}
}
