package commit

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"
)

// leadExpecting leads a group of which that many more members are expected, while as many come.
func (p *Pipeline) leadExpecting(expected, come int, synced bool) {
	p.mu.Lock()
	g := p.queue.pushGroup()
	g.addMember(request(0, LastWriterWins, "a"))
	p.hasLeader, g.called = true, true
	p.leader.synced, p.gathering.expected = synced, 1+expected
	p.mu.Unlock()
	var all sync.WaitGroup
	for range come {
		all.Go(func() {
			r := request(0, LastWriterWins, "b")
			r.Synced = synced
			p.Commit(context.Background(), r)
		})
	}
	p.leadGroup(g)
	all.Wait()
}

// Committers that are ready to run join the group of one that has company.
func TestGather(t *testing.T) {
	now := time.Unix(0, 0)
	yield := time.Microsecond
	store := new(void)
	p := New(Config{Store: store, Journal: new(void), Now: func() time.Time { now = now.Add(yield); return now }})
	a := &p.gathering

	before := now
	for range 10 {
		commit(t, p, request(0, LastWriterWins, "a"))
	}
	if now != before {
		t.Error("a lone writer waited for company")
	}

	// Which goroutine runs after a yield is the scheduler's choice, so give it some.
	joined := false
	for range 1000 {
		groups := store.groups
		p.leadExpecting(1, 1, false)
		joined = joined || store.groups == groups+1
	}
	if !joined {
		t.Error("nobody ever joined")
	}
	a.yields = backoff{}
	before = now
	p.leadExpecting(3, 0, false)
	if yields := int(now.Sub(before)/yield) / 2; yields != vainYields || a.yields.left != 0 {
		t.Errorf("%d yields in vain, and %d groups are not held open, want %d and 0", yields, a.yields.left, vainYields)
	}

	yield = time.Second
	for _, want := range []int{leastSkipped, 2 * leastSkipped, 4 * leastSkipped} {
		a.yields.left = 0
		p.leadExpecting(1, 0, false)
		if a.yields.left != want {
			t.Errorf("after a slow yield %d groups are not held open, want %d", a.yields.left, want)
		}
	}
	before = now
	p.leadExpecting(1, 0, false)
	if now != before || a.yields.left != 4*leastSkipped-1 {
		t.Error("a group was held open that should have been skipped")
	}
	a.yields = backoff{next: mostSkipped}
	p.leadExpecting(1, 0, false)
	if a.yields.next != mostSkipped {
		t.Errorf("%d groups would be skipped", a.yields.next)
	}
	yield = time.Microsecond
	for n := 0; a.yields.next > 0; n++ {
		if a.yields.left = 0; n > 100 {
			t.Fatalf("%d groups would be skipped after %d quick yields", a.yields.next, n)
		}
		p.leadExpecting(1, 0, false)
	}
}

// A leader of synced groups sleeps until those of the group before have come again, and tries that
// ever more seldom while they don't.
func TestGatherSynced(t *testing.T) {
	store := new(void)
	p := New(Config{Store: store, Journal: new(void), Now: time.Now})
	a := &p.gathering

	// Another may be late: how long one may take is the scheduler's choice.
	complete := false
	for i := 0; i < 1000 && !complete; i++ {
		groups := store.groups
		a.sleeps = backoff{}
		p.leadExpecting(8, 8, true)
		complete = store.groups == groups+1 && a.sleeps.left == 0
	}
	if !complete {
		t.Error("no group was ever complete")
	}

	a.sleeps = backoff{}
	for _, want := range []int{leastSkipped, 2 * leastSkipped, 4 * leastSkipped} {
		a.sleeps.left = 0
		p.leadExpecting(1, 0, true)
		if a.sleeps.left != want || len(a.full) > 0 {
			t.Errorf("after a sleep that timed out %d groups don't sleep, want %d", a.sleeps.left, want)
		}
	}
	// One that doesn't sleep yields.
	before := a.sleeps.left
	a.yields = backoff{next: 8}
	if p.leadExpecting(1, 0, true); a.sleeps.left != before-1 || a.yields.next != 7 {
		t.Errorf("%d groups don't sleep, want %d; %d would not yield, want 7", a.sleeps.left, before-1, a.yields.next)
	}
}

// slowSync is a Journal whose syncs take a while, as those of a disk do.
type slowSync struct{ void }

func yieldTimes(n int) {
	for range n {
		runtime.Gosched()
	}
}

func (*slowSync) Sync() error {
	yieldTimes(100)
	return nil
}

// Committers that come again at once share nearly all groups, also if some withdraw, want a
// turn alone or are late meanwhile; and all of them end.
func TestGatherAmongOthers(t *testing.T) {
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
					yieldTimes(1000)
				case i + 1:
					if err := p.Do(context.Background(), func() error { return nil }); err != nil {
						t.Error(err)
					}
				case i + 2:
					go cancel()
				}
				r := request(0, LastWriterWins, "a")
				r.Synced = true
				if _, err := p.Commit(ctx, r); err != nil && err != context.Canceled {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if len(p.gathering.full) > 0 {
		t.Error("somebody woke a leader that did not sleep")
	}
	if most := committers * commits / 2; store.groups > most {
		t.Errorf("%d groups, want at most %d", store.groups, most)
	}
}
