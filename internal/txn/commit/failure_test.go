package commit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/brockdb/brock/internal/base/errs"
)

var errDisk = errors.New("disk on fire")

// Err returns the error that stopped the pipeline, nil as long as it runs.
func (p *Pipeline) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopped
}

// A failed append, sync or apply is the error of the whole group and of all that
// come later; nothing of the group becomes visible.
func TestFailureStopsThePipeline(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault func(m *memory)
	}{
		{"append", func(m *memory) { m.append_ = func() error { return errDisk } }},
		{"sync", func(m *memory) { m.sync_ = func() error { return errDisk } }},
		{"apply", func(m *memory) { m.apply = func([]byte) error { return errDisk } }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				p := start(m)
				commit(t, p, request(0, LastWriterWins, "a"))
				tc.fault(m)
				synced := request(0, LastWriterWins, "b")
				synced.Synced = true
				release := block(p)
				group := []*result{
					background(context.Background(), p, request(0, LastWriterWins, "c")),
					background(context.Background(), p, synced),
					background(context.Background(), p, request(0, SnapshotIsolation, "a")),
				}
				var do error
				go func() { do = p.Do(context.Background(), func() error { t.Error("Do ran"); return nil }) }()
				synctest.Wait()
				behind := background(context.Background(), p, request(0, LastWriterWins, "d"))
				release()
				m.append_, m.sync_, m.apply = nil, nil, nil
				later := background(context.Background(), p, request(0, LastWriterWins, "e"))
				for i, res := range append(group, behind, later, &result{err: do, done: true}) {
					if !res.done || res.version != 0 || !errors.Is(res.err, errs.ErrStopped) || !errors.Is(res.err, errDisk) {
						t.Errorf("request %d: %+v", i, res)
					}
				}
				if err := p.Sync(context.Background()); !errors.Is(err, errs.ErrStopped) {
					t.Errorf("Sync: %v", err)
				}
				if err := p.Err(); !errors.Is(err, errDisk) {
					t.Errorf("Err: %v", err)
				}
				if l := &p.leader; m.visible() != 1 || l.visible.Load() != 1 || l.durable.Load() != 0 && tc.name != "apply" {
					t.Errorf("published %d, visible %d, durable %d", m.visible(), l.visible.Load(), l.durable.Load())
				}
				p.Close()
				if _, err := p.Commit(context.Background(), request(0, LastWriterWins, "f")); !errors.Is(err, errs.ErrClosed) {
					t.Errorf("after Close: %v", err)
				}
			})
		})
	}
}

// A journal that a full disk keeps from writing refuses the group whole, and
// nothing else: who only waits for a sync gets it, and the next group is written
// under the versions that the refused one would have had.
func TestFullDiskRefusesTheGroupOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		p := start(m)
		commit(t, p, request(0, LastWriterWins, "a"))
		m.append_ = func() error { return errs.ErrNoSpace }
		release := block(p)
		synced := request(0, LastWriterWins, "b")
		synced.Synced = true
		group := []*result{
			background(context.Background(), p, request(0, LastWriterWins, "c")),
			background(context.Background(), p, synced),
		}
		conflicting := background(context.Background(), p, request(0, SnapshotIsolation, "a"))
		var sync error
		done := false
		go func() { sync = p.Sync(context.Background()); done = true }()
		synctest.Wait()
		release()
		synctest.Wait()
		for i, res := range group {
			if !res.done || res.version != 0 || res.err != errs.ErrNoSpace {
				t.Errorf("request %d: %+v", i, res)
			}
		}
		if !errors.Is(conflicting.err, errs.ErrConflict) {
			t.Errorf("who would have conflicted: %+v", conflicting)
		}
		if !done || sync != nil || p.Err() != nil {
			t.Errorf("Sync: %v %v, stopped: %v", done, sync, p.Err())
		}
		if l := &p.leader; m.visible() != 1 || l.visible.Load() != 1 || l.durable.Load() != 1 {
			t.Errorf("published %d, visible %d, durable %d", m.visible(), l.visible.Load(), l.durable.Load())
		}
		m.append_ = nil
		if v := commit(t, p, request(0, LastWriterWins, "d")); v != 2 || m.visible() != 2 {
			t.Errorf("version %d, published %d", v, m.visible())
		}
		// What has stopped the journal stops the pipeline, also if it was a full disk.
		m.append_ = func() error { return errors.Join(errs.ErrNoSpace, errs.ErrStopped) }
		if _, err := p.Commit(context.Background(), request(0, LastWriterWins, "e")); !errors.Is(err, errs.ErrStopped) || p.Err() == nil {
			t.Errorf("got %v", err)
		}
	})
}

func TestFailedPrepareRefusesTheGroupOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		p := start(m)
		m.prepare = func(int) error { return errDisk }
		for _, res := range together(p, request(0, LastWriterWins, "a"), request(0, LastWriterWins, "b")) {
			if !errors.Is(res.err, errDisk) || errors.Is(res.err, errs.ErrStopped) {
				t.Errorf("got %+v", res)
			}
		}
		m.prepare = nil
		if v := commit(t, p, request(0, LastWriterWins, "a")); v != 1 {
			t.Errorf("version %d", v)
		}
	})
}

func TestFailedCheckRefusesTheRequestOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		p := start(m)
		m.newest = func(key []byte) error {
			if string(key) == "bad" {
				return errDisk
			}
			return nil
		}
		bad := request(0, Serializable, "a")
		bad.Check.Reads = reads([]string{"bad"}, nil)
		res := together(p, bad, request(0, SnapshotIsolation, "bad"), request(0, SnapshotIsolation, "good"))
		for _, r := range res[:2] {
			if !errors.Is(r.err, errDisk) || errors.Is(r.err, errs.ErrStopped) {
				t.Errorf("got %+v", r)
			}
		}
		wantVersion(t, res[2], 1)
	})
}

// A panic below the pipeline, even if the caller survives it, leaves nobody waiting.
func TestPanicStopsThePipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		p := start(m)
		m.append_ = func() error { panic("bug") }
		release := block(p)
		results := make([]error, 3)
		panics := 0
		for i := range results {
			go func() {
				defer func() {
					if recover() != nil {
						panics++
						results[i] = errs.ErrStopped
					}
				}()
				_, results[i] = p.Commit(context.Background(), request(0, LastWriterWins, "a"))
			}()
			synctest.Wait()
		}
		release()
		if panics != 1 {
			t.Errorf("%d panics", panics)
		}
		for _, err := range results {
			if !errors.Is(err, errs.ErrStopped) {
				t.Errorf("got %v", err)
			}
		}
		if err := p.Err(); !errors.Is(err, errs.ErrStopped) {
			t.Errorf("Err: %v", err)
		}
		p.Close()
	})
}

// A sync that a full disk refuses has its group taken back: nobody sees it, its
// versions go to the next one, and who only waited for the sync is told.
func TestRefusedSyncTakesTheGroupBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		p := start(m)
		commit(t, p, request(0, LastWriterWins, "a"))
		m.trace = true
		m.sync_ = func() error { return errs.ErrNoSpace }
		release := block(p)
		synced := request(0, LastWriterWins, "b")
		synced.Synced = true
		group := []*result{
			background(context.Background(), p, request(0, LastWriterWins, "c")),
			background(context.Background(), p, synced),
		}
		conflicting := background(context.Background(), p, request(0, SnapshotIsolation, "a"))
		var sync error
		go func() { sync = p.Sync(context.Background()) }()
		synctest.Wait()
		release()
		synctest.Wait()
		for i, res := range group {
			if !res.done || res.version != 0 || res.err != errs.ErrNoSpace {
				t.Errorf("request %d: %+v", i, res)
			}
		}
		if !errors.Is(conflicting.err, errs.ErrConflict) || sync != errs.ErrNoSpace || p.Err() != nil {
			t.Errorf("who would have conflicted: %+v; Sync: %v; stopped: %v", conflicting, sync, p.Err())
		}
		if l := &p.leader; m.visible() != 1 || l.visible.Load() != 1 || l.durable.Load() != 0 {
			t.Errorf("published %d, visible %d, durable %d", m.visible(), l.visible.Load(), l.durable.Load())
		}
		m.steps = nil
		// Alone, a Sync has nothing to take back.
		if err := p.Sync(context.Background()); err != errs.ErrNoSpace {
			t.Error(err)
		}
		m.wantSteps(t, "")
		m.sync_ = nil
		if v := commit(t, p, request(0, LastWriterWins, "d")); v != 2 || m.visible() != 2 {
			t.Errorf("version %d, published %d", v, m.visible())
		}
		// What can't be taken back stops the pipeline.
		m.sync_ = func() error { return errs.ErrNoSpace }
		m.retract = func() error { return errDisk }
		synced = request(0, LastWriterWins, "e")
		synced.Synced = true
		if _, err := p.Commit(context.Background(), synced); !errors.Is(err, errs.ErrStopped) || !errors.Is(p.Err(), errDisk) {
			t.Errorf("got %v", err)
		}
	})
}
