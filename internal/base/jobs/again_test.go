package jobs

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var errPasses, errFinal = errors.New("passes"), errors.New("does not pass")

// failer is a task that fails with err, if that is not nil, after some time.
type failer struct {
	task  *Task
	mu    sync.Mutex // guards:
	err   error
	takes time.Duration
	runs  []time.Duration // when they began
	told  []string
}

func newFailer(t *testing.T) (*Pool, *failer) {
	f := new(failer)
	p := New(Options{
		Passes: func(err error) bool { return errors.Is(err, errPasses) },
		OnFailing: func(task string, err error) {
			if err != nil {
				task += ": " + err.Error()
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.told = append(f.told, task)
		},
	})
	t.Cleanup(p.Close)
	begin := time.Now()
	f.task = p.Task(Flush, "work", func(context.Context) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.runs = append(f.runs, time.Since(begin))
		time.Sleep(f.takes)
		return f.err
	})
	return p, f
}

func (f *failer) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *failer) want(t *testing.T, what string, times ...time.Duration) {
	t.Helper()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.runs, times) {
		t.Errorf("%s: ran at %v, want %v", what, f.runs, times)
	}
}

const ms = time.Millisecond

// A task whose failure passes runs again after pauses that double up to a second, also
// if it is kicked meanwhile, until it succeeds.
func TestFailuresThatPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := newFailer(t)
		f.fail(errPasses)
		f.task.Kick()
		<-time.After(5 * ms)
		f.task.Kick() // waits for the next try
		f.want(t, "kicked", 0)
		<-time.After(5*time.Second - 5*ms)
		want := []time.Duration{0}
		for at, pause := time.Duration(0), 10*ms; at+pause < 5*time.Second; pause = min(2*pause, time.Second) {
			at += pause
			want = append(want, at)
		}
		f.want(t, "after five seconds", want...)
		if n, what := p.Failing(); n != int64(len(want)) || what != "work: passes" {
			t.Errorf("%d runs have failed, waiting: %s", n, what)
		}
		f.fail(nil)
		f.task.Hurry()
		f.want(t, "hurried", append(want, 5*time.Second)...)
		if _, what := p.Failing(); what != "" {
			t.Errorf("waiting: %s", what)
		}
		<-time.After(time.Minute)
		f.fail(errPasses)
		f.task.Kick()
		<-time.After(15 * ms) // the pauses begin anew
		f.want(t, "later", append(want, 5*time.Second, 65*time.Second, 65*time.Second+10*ms)...)
		f.mu.Lock()
		defer f.mu.Unlock()
		if !slices.Equal(f.told, []string{"work: passes", "work", "work: passes"}) {
			t.Errorf("told of %q", f.told)
		}
	})
}

// Other failures are not tried again, and nothing is after Close.
func TestFailuresThatStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := newFailer(t)
		f.fail(errFinal)
		f.task.Kick()
		<-time.After(time.Minute)
		f.want(t, "final", 0)
		f.fail(errPasses)
		f.task.Kick()
		<-time.After(12 * ms)
		f.want(t, "passing", 0, time.Minute, time.Minute+10*ms)
		f.fail(errFinal)
		<-time.After(time.Minute)
		f.want(t, "final in the end", 0, time.Minute, time.Minute+10*ms, time.Minute+30*ms)
		f.fail(errPasses)
		f.task.Kick()
		synctest.Wait()
		p.Close()
		f.mu.Lock()
		runs := slices.Clone(f.runs)
		f.mu.Unlock()
		<-time.After(time.Minute)
		f.want(t, "after Close", runs...)
	})
}

// Work that takes long before it fails pauses as long.
func TestPausesAreAsLongAsRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, f := newFailer(t)
		f.fail(errPasses)
		f.takes = 10 * time.Second
		f.task.Kick()
		<-time.After(55 * time.Second)
		f.want(t, "runs", 0, 20*time.Second, 40*time.Second)
	})
}
