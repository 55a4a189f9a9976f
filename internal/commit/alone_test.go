package commit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
)

// A commit without the journal takes the next version and is published; what
// comes later is newer.
func TestCommitAlone(t *testing.T) {
	m := newMemory()
	p := New(Config{Store: m, Journal: m, Last: 7, HashSeed: testSeed})
	ctx := context.Background()
	v, err := p.CommitAlone(ctx, func(v entry.Version) error {
		if v != 8 || m.published != 0 {
			t.Errorf("version %d, %d is published", v, m.published)
		}
		return nil
	})
	if v != 8 || err != nil || m.published != 8 || p.Stats().Durable != 8 {
		t.Errorf("version %d, %v, published %d, durable %d", v, err, m.published, p.Stats().Durable)
	}
	fault := errors.New("no room")
	for _, want := range []error{fault, errs.ErrConflict} {
		if v, err := p.CommitAlone(ctx, func(entry.Version) error { return want }); v != 0 || !errors.Is(err, want) || m.published != 8 {
			t.Errorf("version %d, %v, published %d", v, err, m.published)
		}
	}
	if v, err := p.CommitAlone(ctx, func(v entry.Version) error { return nil }); v != 9 || err != nil {
		t.Errorf("after failures: version %d, %v: an unused one must be used again", v, err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := p.CommitAlone(ended, func(entry.Version) error { t.Error("called"); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.CommitAlone(ctx, func(entry.Version) error { return nil }); !errors.Is(err, errs.ErrClosed) {
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
			_, err := p.CommitAlone(context.Background(), func(entry.Version) error {
				if panics {
					panic("broken")
				}
				return fmt.Errorf("%w: disk", errs.ErrStopped)
			})
			if !errors.Is(err, errs.ErrStopped) {
				t.Errorf("error %v", err)
			}
		}()
		if err := p.Err(); !errors.Is(err, errs.ErrStopped) {
			t.Errorf("the pipeline's error is %v", err)
		}
		if _, err := p.CommitAlone(context.Background(), func(entry.Version) error { return nil }); !errors.Is(err, errs.ErrStopped) {
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
	alone := false // guarded by the turns
	m.prepare = func(int) error {
		if alone {
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
					note(p.CommitAlone(context.Background(), func(entry.Version) error {
						alone = true
						defer func() { alone = false }()
						return nil
					}))
					continue
				}
				var payload []byte
				e := entry.Entry{Key: fmt.Appendf(nil, "%d/%d", w, i), Value: []byte("v"), Kind: entry.Set}
				payload = entry.AppendRecord(payload, &e, false)
				note(p.Commit(context.Background(), &Request{Payload: payload, Records: 1, Isolation: LastWriterWins}))
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
