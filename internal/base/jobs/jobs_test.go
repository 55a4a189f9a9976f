package jobs

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// gate is a task body that says when it began and waits to be let go.
type gate struct {
	began, leave chan struct{}
	runs         atomic.Int32
}

func newGate() *gate { return &gate{began: make(chan struct{}, 100), leave: make(chan struct{})} }

func (g *gate) run(ctx context.Context) error {
	g.runs.Add(1)
	g.began <- struct{}{}
	select {
	case <-g.leave:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestKicksAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		g := newGate()
		task := p.Task(Flush, "g", g.run)
		task.Kick()
		<-g.began
		for range 5 {
			task.Kick() // all of these share the next run
		}
		synctest.Wait()
		if n := g.runs.Load(); n != 1 {
			t.Errorf("%d runs beside the first", n-1)
		}
		close(g.leave)
		synctest.Wait()
		if n := g.runs.Load(); n != 2 {
			t.Errorf("%d runs, want 2", n)
		}
	})
}

func TestFlushNeverWaitsForCompactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Workers: 2})
		compaction, cleanup, flush := newGate(), newGate(), newGate()
		p.Task(Cleanup, "cleanup", cleanup.run).Kick()
		synctest.Wait()
		p.Task(Compaction, "compaction", compaction.run).Kick()
		synctest.Wait()
		if cleanup.runs.Load() != 1 || compaction.runs.Load() != 0 {
			t.Error("both workers are taken by work that is no flush")
		}
		p.Task(Flush, "flush", flush.run).Kick()
		<-flush.began
		if got := p.Waiting(); !slices.Equal(got, []string{"compaction"}) {
			t.Errorf("waiting: %v", got)
		}
		close(flush.leave)
		close(cleanup.leave)
		<-compaction.began
		close(compaction.leave)
		p.Close()
	})
}

func TestOrderByPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Workers: 1})
		var order []string
		add := func(pr Priority, name string) {
			p.Task(pr, name, func(context.Context) error { order = append(order, name); return nil }).Kick()
		}
		busy := newGate()
		p.Task(Flush, "busy", busy.run).Kick()
		<-busy.began
		add(Cleanup, "c")
		add(Compaction, "m1")
		add(Flush, "f")
		add(Compaction, "m2")
		synctest.Wait()
		if len(order) != 0 {
			t.Error("a busy worker ran something else")
		}
		close(busy.leave)
		synctest.Wait()
		if !slices.Equal(order, []string{"f", "m1", "m2", "c"}) {
			t.Errorf("order %v", order)
		}
	})
}

func TestAtMostSoManyWorkers(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		p := New(Options{Workers: workers})
		var now, most, runs atomic.Int32
		for range 50 {
			task := p.Task(Flush, "t", func(context.Context) error {
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				runtime.Gosched()
				runs.Add(1)
				now.Add(-1)
				return nil
			})
			go task.Kick()
			task.Kick()
		}
		for runs.Load() < 50 {
			runtime.Gosched()
		}
		p.Close()
		if int(most.Load()) > workers {
			t.Errorf("%d tasks at once, want at most %d", most.Load(), workers)
		}
	}
}

func TestCloseCancelsAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reported []string
		p := New(Options{Workers: 1, OnError: func(task string, err error) { reported = append(reported, task+": "+err.Error()) }})
		g, never := newGate(), newGate()
		p.Task(Flush, "bad", func(context.Context) error { return errors.New("no luck") }).Kick()
		synctest.Wait()
		p.Task(Flush, "g", g.run).Kick()
		<-g.began
		waits := p.Task(Flush, "never", never.run)
		waits.Kick()
		d := p.IdleAlarm(waits, time.Hour)
		d.Touch()
		p.Close()
		waits.Kick()
		d.Touch()
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if never.runs.Load() != 0 {
			t.Error("a task began after Close")
		}
		if !slices.Equal(reported, []string{"bad: no luck"}) {
			t.Errorf("reported %q", reported)
		}
	})
}

func TestIdleAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		start := time.Now()
		var ran []time.Duration
		d := p.IdleAlarm(p.Task(Compaction, "idle", func(context.Context) error { ran = append(ran, time.Since(start)); return nil }), time.Minute)
		time.Sleep(time.Hour)
		if len(ran) != 0 {
			t.Fatal("ran untouched")
		}
		for range 100 {
			d.Touch()
			time.Sleep(10 * time.Second)
		}
		last := time.Since(start) - 10*time.Second
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(ran) != 1 || ran[0] < last+time.Minute || ran[0] > last+2*time.Minute {
			t.Errorf("last touched at %v, ran at %v", last, ran)
		}
		if len(p.alarms) != 0 || d.timer != nil {
			t.Error("a quiet pool has a timer")
		}
		d.Touch()
		d.Stop()
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(ran) != 1 {
			t.Error("ran after Stop")
		}
		d.Touch()
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if len(ran) != 2 {
			t.Error("did not run after Stop and Touch")
		}
	})
}

// Arm begins the delay but doesn't put it off; a Touch does, as always.
func TestArm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		start := time.Now()
		var ran []time.Duration
		d := p.IdleAlarm(p.Task(Compaction, "idle", func(context.Context) error { ran = append(ran, time.Since(start)); return nil }), time.Minute)
		for range 100 { // for longer than the delay
			d.Arm()
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if len(ran) != 1 || ran[0] != time.Minute {
			t.Errorf("ran at %v", ran)
		}
		d.Touch()
		time.Sleep(50 * time.Second)
		d.Arm()
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(ran) != 2 || ran[1] < 150*time.Second || ran[1] > 220*time.Second {
			t.Errorf("touched at 100 s, ran at %v", ran)
		}
		if len(p.alarms) != 0 || d.timer != nil {
			t.Error("a quiet pool has a timer")
		}
	})
}

func TestManual(t *testing.T) {
	p := New(Options{Manual: true})
	var ran []string
	task := func(pr Priority, name string, err error) *Task {
		return p.Task(pr, name, func(context.Context) error { ran = append(ran, name); return err })
	}
	no := errors.New("no")
	compaction := task(Compaction, "compaction", no)
	compaction.Kick()
	task(Flush, "flush", nil).Kick()
	p.IdleAlarm(task(Cleanup, "late", nil), time.Nanosecond).Touch()
	if len(ran) != 0 || !slices.Equal(p.Waiting(), []string{"flush", "compaction"}) {
		t.Fatalf("ran %v, waiting %v", ran, p.Waiting())
	}
	if name, ok, err := p.Step(); name != "flush" || !ok || err != nil {
		t.Errorf("step: %q, %v, %v", name, ok, err)
	}
	if name, ok, err := p.Step(); name != "compaction" || !ok || err != no {
		t.Errorf("step: %q, %v, %v", name, ok, err)
	}
	if _, ok, _ := p.Step(); ok {
		t.Error("a step without work")
	}
	if n := p.Idle(); n != 1 {
		t.Errorf("%d delayed", n)
	}
	compaction.Kick()
	for ok := true; ok; {
		_, ok, _ = p.Step()
	}
	if !slices.Equal(ran, []string{"flush", "compaction", "compaction", "late"}) {
		t.Errorf("ran %v", ran)
	}
}

// TestTouchIsNotLost touches a trigger from many goroutines: after the last
// touch there is always one more run.
func TestTouchIsNotLost(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			p := New(Options{})
			var counter, seen atomic.Int64
			d := p.IdleAlarm(p.Task(Compaction, "idle", func(context.Context) error { seen.Store(counter.Load()); return nil }), time.Millisecond)
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() {
					for j := range 5 {
						counter.Add(1)
						d.Touch()
						time.Sleep(time.Duration(i*j) * 500 * time.Microsecond)
					}
				})
			}
			wg.Wait()
			time.Sleep(time.Second)
			synctest.Wait()
			if seen.Load() != counter.Load() {
				t.Fatalf("the last run saw %d of %d touches", seen.Load(), counter.Load())
			}
		})
	}
}

func BenchmarkTouch(b *testing.B) {
	p := New(Options{})
	d := p.IdleAlarm(p.Task(Compaction, "idle", func(context.Context) error { return nil }), time.Hour)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			d.Touch()
		}
	})
	d.Stop()
}
