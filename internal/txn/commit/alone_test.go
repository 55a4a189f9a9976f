package commit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
)

// alone is a transaction without a journal whose Commit is the function.
type alone func(v entry.Version) error

func (alone) Prepare(context.Context, Check) error     { return nil }
func (fn alone) Commit(v entry.Version, _ Check) error { return fn(v) }

// preparing is an alone whose Prepare is a function.
type preparing struct {
	alone
	prepare func()
}

func (p preparing) Prepare(context.Context, Check) error {
	p.prepare()
	return nil
}

// Between Prepare and Commit nobody waits for anything but the turn: what others commit
// meanwhile is looked at while everybody waits.
func TestCommitAloneIsThrottledFirst(t *testing.T) {
	m, throttled, prepared := newMemory(), false, false
	m.throttle = func(context.Context, int) error {
		throttled = true
		if prepared {
			t.Error("throttled after Prepare")
		}
		return nil
	}
	a := preparing{func(entry.Version) error { return nil }, func() { prepared = true }}
	if _, err := start(m).CommitAlone(context.Background(), a, Check{}, 0); err != nil || !throttled || !prepared {
		t.Errorf("throttled %v, prepared %v, %v", throttled, prepared, err)
	}
}

// A commit without the journal takes the next version and is published; what
// comes later is newer.
func TestCommitAlone(t *testing.T) {
	m := newMemory()
	p := New(Config{Store: m, Journal: m, Last: 7, HashSeed: testSeed})
	ctx := context.Background()
	v, err := p.CommitAlone(ctx, alone(func(v entry.Version) error {
		if v != 8 || m.published != 0 {
			t.Errorf("version %d, %d is published", v, m.published)
		}
		return nil
	}), Check{}, 0)
	if v != 8 || err != nil || m.published != 8 || p.leader.durable.Load() != 8 {
		t.Errorf("version %d, %v, published %d, durable %d", v, err, m.published, p.leader.durable.Load())
	}
	fault := errors.New("no room")
	for _, want := range []error{fault, errs.ErrConflict} {
		if v, err := p.CommitAlone(ctx, alone(func(entry.Version) error { return want }), Check{}, 0); v != 0 || !errors.Is(err, want) || m.published != 8 {
			t.Errorf("version %d, %v, published %d", v, err, m.published)
		}
	}
	if v, err := p.CommitAlone(ctx, alone(func(v entry.Version) error { return nil }), Check{}, 0); v != 9 || err != nil {
		t.Errorf("after failures: version %d, %v: an unused one must be used again", v, err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := p.CommitAlone(ended, alone(func(entry.Version) error { t.Error("called"); return nil }), Check{}, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.CommitAlone(ctx, alone(func(entry.Version) error { return nil }), Check{}, 0); !errors.Is(err, errs.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// If nobody knows whether a version counts, none is given out any more.
func TestCommitAloneStopsThePipeline(t *testing.T) {
	for _, panics := range []bool{false, true} {
		m := newMemory()
		p := New(Config{Store: m, Journal: m, HashSeed: testSeed})
		func() {
			defer func() { _ = recover() }()
			_, err := p.CommitAlone(context.Background(), alone(func(entry.Version) error {
				if panics {
					panic("broken")
				}
				return fmt.Errorf("%w: disk", errs.ErrStopped)
			}), Check{}, 0)
			if !errors.Is(err, errs.ErrStopped) {
				t.Errorf("error %v", err)
			}
		}()
		if err := p.Err(); !errors.Is(err, errs.ErrStopped) {
			t.Errorf("the pipeline's error is %v", err)
		}
		if _, err := p.CommitAlone(context.Background(), alone(func(entry.Version) error { return nil }), Check{}, 0); !errors.Is(err, errs.ErrStopped) {
			t.Errorf("afterwards: %v", err)
		}
	}
}

// Turns alone and groups never overlap, and versions have no gap.
func TestCommitAloneBesideGroups(t *testing.T) {
	m := newMemory()
	p := New(Config{Store: m, Journal: m, HashSeed: testSeed})
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[entry.Version]bool{}
	note := func(v entry.Version, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil || seen[v] {
			t.Errorf("version %d, %v, seen before: %v", v, err, seen[v])
		}
		seen[v] = true
	}
	inTurn := false // guarded by the turns
	m.prepare = func(int) error {
		if inTurn {
			t.Error("a group is written beside a turn alone")
		}
		return nil
	}
	for w := range 6 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 50 {
				if w < 2 {
					note(p.CommitAlone(context.Background(), alone(func(entry.Version) error {
						inTurn = true
						defer func() { inTurn = false }()
						return nil
					}), Check{}, 0))
					continue
				}
				var payload []byte
				e := entry.Entry{Key: fmt.Appendf(nil, "%d/%d", w, i), Value: []byte("v"), Kind: entry.Set}
				payload = entry.PadRecords(entry.AppendRecord(payload, &e, false))
				note(p.Commit(context.Background(), &Request{Payload: payload, Records: 1, Check: Check{Isolation: LastWriterWins}}))
			}
		}()
	}
	wg.Wait()
	for v := entry.Version(1); v <= 300; v++ {
		if !seen[v] {
			t.Errorf("version %d was skipped", v)
		}
	}
}
