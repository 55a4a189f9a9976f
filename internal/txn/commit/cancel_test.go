package commit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/brockdb/brock/internal/base/entry"
)

func wantCanceled(t *testing.T, res *result) {
	t.Helper()
	if !res.done || res.version != 0 || !errors.Is(res.err, context.Canceled) {
		t.Errorf("got %+v, want canceled", res)
	}
}

func wantVersion(t *testing.T, res *result, v entry.Version) {
	t.Helper()
	if !res.done || res.version != v || res.err != nil {
		t.Errorf("got %+v, want version %d", res, v)
	}
}

func TestCancelBeforeCommit(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	m := newMemory()
	m.trace = true
	if _, err := start(m).Commit(ctx, request(0, LastWriterWins, "a")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	m.wantSteps(t, "")
}

func TestCancelWhileThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.throttle = func(ctx context.Context, n int) error {
			if n != 8 {
				t.Errorf("throttle %d bytes", n)
			}
			<-ctx.Done()
			return ctx.Err()
		}
		ctx, cancel := context.WithCancel(context.Background())
		res := background(ctx, start(m), request(0, LastWriterWins, "a"))
		cancel()
		synctest.Wait()
		wantCanceled(t, res)
	})
}

// Members leave a waiting group from the front, the middle and the end, and all
// of them leave another; what stays is written.
func TestCancelWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		p := start(m)
		release := block(p)
		var res []*result
		var cancels []context.CancelFunc
		for _, k := range []string{"a", "b", "c", "d", "e"} {
			ctx, cancel := context.WithCancel(context.Background())
			res = append(res, background(ctx, p, request(0, LastWriterWins, k)))
			cancels = append(cancels, cancel)
		}
		for _, i := range []int{0, 2, 4} {
			cancels[i]()
		}
		synctest.Wait()
		for _, i := range []int{0, 2, 4} {
			wantCanceled(t, res[i])
		}
		release()
		cancels[1]()
		cancels[3]()
		wantVersion(t, res[1], 1)
		wantVersion(t, res[3], 2)

		release = block(p)
		ctx, cancel := context.WithCancel(context.Background())
		x, y := background(ctx, p, request(0, LastWriterWins, "x")), background(ctx, p, request(0, LastWriterWins, "y"))
		cancel()
		synctest.Wait()
		wantCanceled(t, x)
		wantCanceled(t, y)
		z := background(context.Background(), p, request(0, LastWriterWins, "z"))
		release()
		wantVersion(t, z, 3)
		for _, k := range []string{"a", "c", "e", "x", "y"} {
			if len(m.keys[k]) > 0 {
				t.Errorf("withdrawn %s was written", k)
			}
		}
	})
}

func TestCancelAfterTakenWaitsForTheResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		p := start(m)
		reached, goOn := make(chan struct{}), make(chan struct{})
		m.sync_ = func() error { close(reached); <-goOn; return nil }
		release := block(p)
		ctx, cancel := context.WithCancel(context.Background())
		a := background(ctx, p, request(0, LastWriterWins, "a"))
		r := request(0, LastWriterWins, "b")
		r.Synced = true
		b := background(ctx, p, r)
		release()
		<-reached
		cancel()
		synctest.Wait()
		if a.done || b.done {
			t.Fatal("a request that was taken did not wait for its result")
		}
		close(goOn)
		synctest.Wait()
		wantVersion(t, a, 1)
		wantVersion(t, b, 2)
	})
}

// The last member withdraws when the token already lies in its channel: it must
// pass leadership on, to the next group or to nobody.
func TestCancelWithTheToken(t *testing.T) {
	for _, next := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := start(newMemory())
			p.mu.Lock()
			r := request(0, LastWriterWins, "a")
			g := p.queue.pushGroup()
			g.addMember(r)
			g.waitChannel()
			p.hasLeader = true
			var turn *group
			if next {
				turn = p.queue.pushGroup()
				turn.exclusive = true
				turn.waitChannel()
			}
			p.passLeadershipLocked()
			p.mu.Unlock()
			if !p.withdrawRequest(g, r) {
				t.Fatal("could not withdraw")
			}
			if p.hasLeader != next {
				t.Errorf("busy is %v", p.hasLeader)
			}
			if next {
				<-turn.wake
			} else {
				commit(t, p, request(0, LastWriterWins, "b"))
			}
		})
	}
}
