package commit

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock/internal/txn/conflict"
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
		g.addMember(request(0, conflict.LastWriterWins, "a"))
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
	for _, want := range []int{backoffMin, 2 * backoffMin, 4 * backoffMin} {
		a.company, a.busy.left = 2, 0
		next()
		// The other committer, if late, had a group of its own.
		if a.busy.left != want && a.busy.left != want-1 {
			t.Errorf("after a slow turn %d groups are not held open, want %d", a.busy.left, want)
		}
	}
	a.busy.next, a.busy.left, a.company = backoffMax, 0, 2
	next()
	if a.busy.next != backoffMax {
		t.Errorf("backoff grew to %d", a.busy.next)
	}
	turn = time.Microsecond
	for n := 0; a.busy.next > 0; n++ {
		if a.busy.left, a.company = 0, 2; n > 100 {
			t.Fatalf("backoff is %d after %d quick turns", a.busy.next, n)
		}
		next()
	}

	if a.slow(slowTurn+2*memberTurn, 2) || !a.slow(slowTurn+2*memberTurn, 1) {
		t.Error("a turn that brings members may take their time, and no more")
	}
}

// Committers whose commits wait for nothing share groups too, on one processor: none of
// them runs until it is stopped.
func TestGatherBehindOneThatNeverBlocks(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	now := time.Unix(0, 0)
	store := new(void)
	p := New(Config{Store: store, Journal: new(void), Now: func() time.Time { now = now.Add(time.Microsecond); return now }})
	const committers, commits = 16, 500
	var all sync.WaitGroup
	for range committers {
		all.Go(func() {
			for range commits {
				if _, err := p.Commit(context.Background(), request(0, conflict.LastWriterWins, "a")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if most := committers * commits / 4; store.groups > most {
		t.Errorf("%d commits of %d committers in %d groups, want at most %d", committers*commits, committers, store.groups, most)
	}
	// One that is alone looks for company less and less.
	before := now
	for range 4 * loneMax {
		commit(t, p, request(0, conflict.LastWriterWins, "a"))
	}
	looks := int(now.Sub(before)/time.Microsecond) / (2 * stillTurns)
	if looks < 4 || looks > 16 {
		t.Errorf("looked for company %d times in %d commits", looks, 4*loneMax)
	}
}
