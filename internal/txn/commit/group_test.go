package commit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
)

// result is what a Commit in the background returned.
type result struct {
	version entry.Version
	err     error
	done    bool
}

// background starts a Commit and returns when it waits or has returned.
func background(ctx context.Context, p *Pipeline, r *Request) *result {
	res := new(result)
	go func() {
		v, err := p.Commit(ctx, r)
		*res = result{v, err, true}
	}()
	synctest.Wait()
	return res
}

// block occupies the pipeline until the returned function is called.
func block(p *Pipeline) (release func()) {
	c := make(chan struct{})
	go p.Do(context.Background(), func() error { <-c; return nil })
	synctest.Wait()
	return func() { close(c); synctest.Wait() }
}

// together commits the requests in this order in one group.
func together(p *Pipeline, rs ...*Request) []*result {
	release := block(p)
	var out []*result
	for _, r := range rs {
		out = append(out, background(context.Background(), p, r))
	}
	release()
	return out
}

func (m *memory) wantSteps(t *testing.T, want string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	got := strings.Join(m.steps, "\n")
	m.steps = nil
	want = strings.ReplaceAll(strings.TrimSpace(want), "\t", "")
	if got != want {
		t.Errorf("steps:\n%s\nwant:\n%s", got, want)
	}
}

func TestGroupIsAppendedSyncedAppliedPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.trace = true
		p := start(m)
		commit(t, p, request(0, LastWriterWins, "a"))
		m.wantSteps(t, `
			prepare 40
			append 1 transactions, 1 records, versions 1-1
			apply 8 bytes at 0
			publish 1`)
		b, c := request(0, LastWriterWins, "b"), request(0, LastWriterWins, "c", "-d")
		c.Synced = true
		for i, r := range together(p, b, c) {
			if r.err != nil || r.version != entry.Version(2+i) {
				t.Errorf("request %d: version %d, %v", i, r.version, r.err)
			}
		}
		m.wantSteps(t, `
			prepare 120
			append 2 transactions, 3 records, versions 2-3
			sync
			apply 8 bytes at 8
			apply 16 bytes at 16
			publish 3`)
		if l := &p.leader; l.visible.Load() != 3 || l.durable.Load() != 3 {
			t.Errorf("visible %d, durable %d, want 3", l.visible.Load(), l.durable.Load())
		}
		if v := m.keys["d"][0]; v.version != 3 || !v.deleted {
			t.Errorf("d is %+v", v)
		}
	})
}

// Who catches up has its commit published, and keeps nobody else from committing.
func TestCatchUpHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		p := start(m)
		var calls []entry.Version // what was visible at each
		resume := make(chan struct{})
		m.catchUp = func() {
			m.mu.Lock()
			calls = append(calls, m.published)
			first := len(calls) == 1
			m.mu.Unlock()
			if first {
				<-resume
			}
		}
		a := background(context.Background(), p, request(0, LastWriterWins, "a"))
		b := background(context.Background(), p, request(0, LastWriterWins, "b"))
		if a.done || !b.done || b.err != nil {
			t.Errorf("while the first one catches up: first %+v, second %+v", a, b)
		}
		m.prepare = func(int) error { return errs.ErrNoSpace }
		if c := background(context.Background(), p, request(0, LastWriterWins, "c")); c.err == nil {
			t.Error("refused, but committed")
		}
		close(resume)
		synctest.Wait()
		if !a.done || a.err != nil || len(calls) != 2 || calls[0] != 1 || calls[1] != 2 {
			t.Errorf("first %+v, catching up at %v", a, calls)
		}
	})
}

func TestEmptyRequestIsNotWritten(t *testing.T) {
	m := newMemory()
	m.trace = true
	v, err := start(m).Commit(context.Background(), &Request{Check: Check{Since: 7}, Synced: true})
	if v != 7 || err != nil {
		t.Errorf("version %d, %v", v, err)
	}
	m.wantSteps(t, "")
}

func TestSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.trace = true
		p := start(m)
		sync := func() {
			t.Helper()
			if err := p.Sync(context.Background()); err != nil {
				t.Error(err)
			}
		}
		sync() // nothing to do
		commit(t, p, request(0, LastWriterWins, "a"))
		m.steps = nil
		sync()
		sync() // still durable
		m.wantSteps(t, "sync")

		// A Sync that joins a group shares its sync, also if the rest conflicts.
		commit(t, p, request(0, LastWriterWins, "a"))
		m.steps = nil
		release := block(p)
		res := background(context.Background(), p, request(0, SnapshotIsolation, "a"))
		go sync()
		synctest.Wait()
		release()
		m.wantSteps(t, "sync")
		if !errors.Is(res.err, errs.ErrConflict) {
			t.Errorf("got %v", res.err)
		}
	})
}

func TestRefusedRequestAsksForNoSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		p := start(m)
		commit(t, p, request(0, LastWriterWins, "a"))
		m.trace = true
		r := request(0, SnapshotIsolation, "a")
		r.Synced = true
		res := together(p, r, request(0, LastWriterWins, "b"))
		if !errors.Is(res[0].err, errs.ErrConflict) || res[1].version != 2 {
			t.Errorf("got %+v, %+v", res[0], res[1])
		}
		m.wantSteps(t, `
			prepare 40
			append 1 transactions, 1 records, versions 2-2
			apply 8 bytes at 8
			publish 2`)
	})
}

func TestGroupLimits(t *testing.T) {
	g := new(group)
	small := &Request{Payload: make([]byte, 8)}
	for range MaxTransactions {
		if !g.hasRoom(small) {
			t.Fatalf("full with %d transactions", len(g.members))
		}
		g.addMember(small)
	}
	if g.hasRoom(small) {
		t.Error("room for one too many")
	}
	g = new(group)
	g.addMember(&Request{Given: make([]Given, MaxTransactions-2)})
	if !g.hasRoom(&Request{Given: make([]Given, 2)}) || g.hasRoom(&Request{Given: make([]Given, 3)}) {
		t.Error("each version counts as a transaction")
	}
	g = new(group)
	g.addMember(&Request{Payload: make([]byte, MaxBytes-8)})
	if !g.hasRoom(small) || g.hasRoom(&Request{Payload: make([]byte, 9)}) {
		t.Error("the limit is not MaxBytes")
	}
	if (&group{exclusive: true}).hasRoom(new(Request)) {
		t.Error("somebody may join an exclusive turn")
	}
}

func TestLargeTransactionIsAGroupOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.trace = true
		p := start(m)
		large := entry.AppendRecord(nil, &entry.Entry{Kind: entry.Set, Key: []byte("k"), Value: make([]byte, MaxBytes)}, false)
		large = entry.PadRecords(large)
		small := func() *Request { return request(0, LastWriterWins, "s") }
		for i, r := range together(p, small(), &Request{Payload: large, Records: 1}, small(), small()) {
			if r.err != nil || r.version != entry.Version(i+1) {
				t.Errorf("request %d: version %d, %v", i, r.version, r.err)
			}
		}
		var groups []string
		for _, s := range m.steps {
			if strings.HasPrefix(s, "append") {
				groups = append(groups, s)
			}
		}
		want := "[append 1 transactions, 1 records, versions 1-1" +
			" append 1 transactions, 1 records, versions 2-2" +
			" append 2 transactions, 2 records, versions 3-4]"
		if fmt.Sprint(groups) != want {
			t.Errorf("got %s, want %s", groups, want)
		}
	})
}

func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.trace = true
		p := start(m)
		release := block(p)
		first := background(context.Background(), p, request(0, LastWriterWins, "a"))
		boom := errors.New("boom")
		var got error
		go func() { got = p.Do(context.Background(), func() error { m.step("do"); return boom }) }()
		synctest.Wait()
		second := background(context.Background(), p, request(0, LastWriterWins, "b"))
		release()
		if got != boom || first.version != 1 || second.version != 2 {
			t.Errorf("do %v, first %+v, second %+v", got, first, second)
		}
		m.wantSteps(t, `
			prepare 40
			append 1 transactions, 1 records, versions 1-1
			apply 8 bytes at 0
			publish 1
			do
			prepare 40
			append 1 transactions, 1 records, versions 2-2
			apply 8 bytes at 8
			publish 2`)
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		p := start(m)
		release := block(p)
		before := background(context.Background(), p, request(0, LastWriterWins, "a"))
		var closed atomic.Int32
		for range 2 {
			go func() { p.Close(); closed.Add(1) }()
			synctest.Wait()
		}
		after := background(context.Background(), p, request(0, LastWriterWins, "b"))
		if !errors.Is(after.err, errs.ErrClosed) {
			t.Errorf("after Close: %v", after.err)
		}
		if closed.Load() != 0 {
			t.Error("Close did not wait")
		}
		release()
		if before.version != 1 || closed.Load() != 2 {
			t.Errorf("before Close: %+v; %d closed", before, closed.Load())
		}
		if err := p.Do(context.Background(), func() error { return nil }); !errors.Is(err, errs.ErrClosed) {
			t.Errorf("Do: %v", err)
		}
		if err := p.Sync(context.Background()); !errors.Is(err, errs.ErrClosed) {
			t.Errorf("Sync: %v", err)
		}
		p.Close()
		if p.hasLeader || len(p.queue.groups) > 0 {
			t.Error("the pipeline is not at rest")
		}
	})
}

func TestOnSync(t *testing.T) {
	m := newMemory()
	now := time.Unix(0, 0)
	var syncs []time.Duration
	p := New(Config{
		Store: m, Journal: m,
		Now:    func() time.Time { now = now.Add(time.Millisecond); return now },
		OnSync: func(took time.Duration) { syncs = append(syncs, took) },
	})
	r := request(0, LastWriterWins, "a")
	r.Synced = true
	commit(t, p, r)
	commit(t, p, request(0, LastWriterWins, "b", "c"))
	if got := fmt.Sprint(syncs); got != "[1ms]" {
		t.Errorf("got %s", got)
	}
	if l := &p.leader; l.durable.Load() != 1 || l.visible.Load() != 2 {
		t.Errorf("durable %d, visible %d", l.durable.Load(), l.visible.Load())
	}
}
