package commit

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock/internal/txn/conflict"
)

// A leader sleeps until those of the group before have come again, and tries that ever
// more seldom while they don't.
func TestAwait(t *testing.T) {
	store := new(void)
	p := New(Config{Store: store, Journal: new(void), Now: time.Now})
	a := &p.awaiting

	// next leads a synced group for which others are expected, and as many come.
	next := func(others, come int) {
		p.mu.Lock()
		g := p.queue.push()
		g.addMember(request(0, conflict.LastWriterWins, "a"))
		p.busy, g.called = true, true
		a.synced, a.expected = true, 1+others
		p.gathering.company, p.gathering.busy = 1+others, backoff{}
		p.mu.Unlock()
		var all sync.WaitGroup
		for range come {
			all.Go(func() {
				r := request(0, conflict.LastWriterWins, "b")
				r.Synced = true
				p.Commit(context.Background(), r)
			})
		}
		p.lead(g)
		all.Wait()
	}

	// Another may be late: how long one may take is the scheduler's choice.
	complete := false
	for i := 0; i < 1000 && !complete; i++ {
		groups := store.groups
		a.vain = backoff{}
		next(8, 8)
		complete = store.groups == groups+1 && a.vain.left == 0
	}
	if !complete {
		t.Error("no group was ever complete")
	}

	a.vain = backoff{}
	for _, want := range []int{backoffMin, 2 * backoffMin, 4 * backoffMin} {
		a.vain.left = 0
		next(1, 0)
		if a.vain.left != want || len(a.full) > 0 {
			t.Errorf("after a vain sleep %d groups skip it, want %d", a.vain.left, want)
		}
	}
	left := a.vain.left
	next(1, 0)
	if a.vain.left != left-1 {
		t.Errorf("%d groups skip it, want %d", a.vain.left, left-1)
	}
}

// slowSync is a Journal whose syncs take a while, as those of a disk do.
type slowSync struct{ void }

func yield(n int) {
	for range n {
		runtime.Gosched()
	}
}

func (*slowSync) Sync() error {
	yield(100)
	return nil
}

// Committers that come again at once share nearly all groups, also if some withdraw, want a
// turn alone or are late meanwhile; and all of them end.
func TestAwaitAmongOthers(t *testing.T) {
	store := new(void)
	p := New(Config{Store: store, Journal: new(slowSync), Now: time.Now})
	const committers, commits = 16, 200
	var all sync.WaitGroup
	for i := range committers {
		all.Go(func() {
			for n := range commits {
				ctx, cancel := context.WithCancel(context.Background())
				switch n % 32 {
				case i:
					yield(1000)
				case i + 1:
					if err := p.Do(context.Background(), func() error { return nil }); err != nil {
						t.Error(err)
					}
				case i + 2:
					go cancel()
				}
				r := request(0, conflict.LastWriterWins, "a")
				r.Synced = true
				if _, err := p.Commit(ctx, r); err != nil && err != context.Canceled {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if len(p.awaiting.full) > 0 {
		t.Error("somebody woke a leader that did not sleep")
	}
	if most := committers * commits / 2; store.groups > most {
		t.Errorf("%d groups, want at most %d", store.groups, most)
	}
}
