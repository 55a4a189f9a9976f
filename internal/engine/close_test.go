package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/vfs"
)

// fill writes some keys, with values of all kinds, and flushes some of them.
func fill(s *store) {
	s.t.Helper()
	for round := range 3 {
		for _, key := range []string{"a", "b", "c", "d"} {
			s.must(s.commit(false, set(key, bulk(key, 10+round*200))))
		}
		if round < 2 {
			s.flush()
		}
	}
}

// Pins outlive Close: their files stay open until they are released, and are
// then closed though no job runs any more.
func TestClosedTreeLetsGoOfFilesWithItsLastReader(t *testing.T) {
	fs := newCounting(vfs.NewMem())
	s := newStore(t, fs, nil)
	fill(s)
	old := s.pin(0)
	s.flush()
	s.must(s.engine.Work.Compact(context.Background()))
	s.must(s.commit(false, set("a", []byte("new"))))
	young := s.pin(0)
	s.close()

	if _, err := s.engine.Views.Acquire(0); !errors.Is(err, errs.ErrClosed) {
		t.Errorf("acquire after Close: %v", err)
	}
	if value, _, found := s.lookup(old, "a"); !found || shown("a", value) != "@410" {
		t.Errorf("the old pin finds %s", shown("a", value))
	}
	if value, _, found := s.lookup(young, "a"); !found || string(value) != "new" {
		t.Errorf("the young pin finds %s", value)
	}
	if len(fs.files()) == 0 {
		t.Error("no file is open while pins are held")
	}
	old.Release()
	if value, _, _ := s.lookup(young, "a"); string(value) != "new" {
		t.Errorf("the young pin finds %s", value)
	}
	young.Release()
	fs.checkClosed(t)
	if n := s.engine.files.Failures.Load(); n > 0 {
		t.Errorf("%d files could not be released", n)
	}
	s.mustOpen()
	defer s.close()
	if s.rec.Removed != 0 {
		t.Errorf("Close left %d files that nobody needs: %v", s.rec.Removed, names(t, fs))
	}
}

func TestFailedOpenClosesItsFiles(t *testing.T) {
	mem := vfs.NewMem()
	s := newStore(t, mem, nil)
	fill(s)
	s.flush()
	s.close()
	list, err := mem.List("/s")
	s.must(err)
	for _, name := range list {
		if !strings.HasSuffix(name, ".run") && !strings.HasSuffix(name, ".val") {
			continue
		}
		fs := newCounting(mem.CrashClone(vfs.CrashOptions{Mode: vfs.All}))
		s.must(fs.Remove("/s/" + name))
		s.fs = fs
		var c *errs.Corruption
		if err := s.open(); !errors.As(err, &c) || !strings.Contains(c.File, name) {
			t.Errorf("without %s: %v", name, err)
		}
		fs.checkClosed(t)
	}
}

// Those who wait for work are told that the tree closes, though no work will end.
func TestCloseEndsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, vfs.NewMem(), func(s *store) { s.cfg.MemtableBytes = 1 })
		s.must(s.commit(false, set("a", []byte("1"))))
		var wait sync.WaitGroup
		wait.Go(func() {
			if err := s.engine.Work.Flush(context.Background()); !errors.Is(err, errs.ErrClosed) {
				t.Errorf("flush: %v", err)
			}
		})
		synctest.Wait()
		for range policy.ThrottleMostTables {
			s.must(s.commit(false, set("a", []byte("1"))))
		}
		wait.Go(func() {
			if err := s.engine.Commits.Throttle(context.Background(), nil); !errors.Is(err, errs.ErrClosed) {
				t.Errorf("admission: %v", err)
			}
		})
		synctest.Wait()
		begin := time.Now()
		s.close()
		wait.Wait()
		if took := time.Since(begin); took > 0 {
			t.Errorf("waited %v", took)
		}
	})
}

func TestThrottleHonoursItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, vfs.NewMem(), func(s *store) { s.cfg.MemtableBytes = 1 })
		defer s.close()
		for range policy.ThrottleMostTables + 1 {
			s.must(s.commit(false, set("a", []byte("1"))))
		}
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		begin := time.Now()
		err := s.engine.Commits.Throttle(ctx, nil)
		if took := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || took != 3*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		s.flush()
		if err := s.engine.Commits.Throttle(ctx, nil); err != nil {
			t.Errorf("after the flush: %v", err)
		}
	})
}

// A Flush waits for what was written before it, not for those who go on writing.
func TestFlushIsNotKeptBusyByWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, vfs.NewMem(), func(s *store) { s.cfg.MemtableBytes = 1 })
		defer s.close()
		s.must(s.commit(false, set("a", []byte("1"))))
		done := make(chan error, 1)
		go func() { done <- s.engine.Work.Flush(context.Background()) }()
		synctest.Wait()
		s.must(s.commit(false, set("a", []byte("2"))))
		s.must(s.commit(false, set("a", []byte("3"))))
		did, err := s.engine.Work.flusher.flushOldest(context.Background())
		if !did || err != nil {
			t.Fatal(did, err)
		}
		synctest.Wait()
		select {
		case err := <-done:
			s.must(err)
		default:
			t.Error("Flush still waits")
			s.flush()
			<-done
		}
	})
}

// A Compact works on the goroutine of its caller: Close ends it and waits.
func TestCloseWaitsForCompact(t *testing.T) {
	fs := newCounting(vfs.NewMem())
	s := newStore(t, fs, nil)
	fill(s)
	s.flush()
	merging, resume := make(chan struct{}), make(chan struct{})
	var once sync.Once
	fs.mu.Lock()
	fs.onCreate = func(name string) {
		if strings.HasSuffix(name, ".run") {
			once.Do(func() { close(merging); <-resume })
		}
	}
	fs.mu.Unlock()
	compacted := make(chan error, 1)
	go func() { compacted <- s.engine.Work.Compact(context.Background()) }()
	<-merging
	closed := make(chan error, 1)
	go func() { closed <- s.engine.Close() }()
	<-s.engine.lifetime.closing.Done()
	select {
	case <-closed:
		t.Error("Close did not wait for Compact")
	default:
	}
	close(resume)
	s.must(<-closed)
	if err := <-compacted; err != nil && !errors.Is(err, errs.ErrClosed) {
		t.Errorf("compact: %v", err)
	}
	fs.checkClosed(t)
	if s.failure != nil {
		t.Errorf("Close was taken for a failure: %v", s.failure)
	}
	s.mustOpen()
	if problems := s.check(); problems != "" {
		t.Error(problems)
	}
	if !s.log.Recovered().SuperMended && !s.engine.views.Current().Layout.Snapshot().CleanClose {
		t.Error("the close was not clean")
	}
	s.close()
}

// TestReclaimWaitsForOtherWork holds an old View, as work does that goes on
// beside Reclaim: what that has freed is gone when it returns, not some time later.
func TestReclaimWaitsForOtherWork(t *testing.T) {
	s := newStore(t, vfs.NewMem(), func(s *store) { s.busy = true })
	defer s.close()
	for i := range 50 {
		s.must(s.commit(false, set(fmt.Sprint("key ", i), bulk("value", 4000))))
	}
	s.must(s.engine.Work.Flush(t.Context()))
	for i := range 50 {
		s.must(s.commit(false, del(fmt.Sprint("key ", i))))
	}
	s.must(s.engine.Work.Flush(t.Context()))
	s.engine.Work.searcher.mu.Lock()
	hold, err := s.engine.views.Hold()
	s.must(err)
	done := make(chan error)
	go func() {
		_, err := s.engine.Work.Reclaim(t.Context())
		done <- err
	}()
	for len(s.engine.views.Current().Layout.Runs()) > 0 { // until all is merged away
		select {
		case err := <-done:
			t.Fatalf("Reclaim has returned before what it freed has gone (%v)", err)
		case <-time.After(time.Millisecond):
		}
	}
	hold.Release()
	s.engine.Work.searcher.mu.Unlock()
	s.must(<-done)
	names, err := s.fs.List("/s")
	s.must(err)
	for _, name := range names {
		if info, err := s.fs.Stat("/s/" + name); err == nil && info.Size > 100<<10 {
			t.Errorf("%s has %d bytes", name, info.Size)
		}
	}
}

// A committer who waits for disk space while the store is closed looks once more afterwards.
func TestDiskSpaceIsSurveyedAfterClose(t *testing.T) {
	mem := vfs.NewMem()
	s := newStore(t, mem, nil)
	s.must(s.commit(false, set("a", bulk("v", 1000))))
	mem.SetCapacity(mem.Used() + 100<<10)
	s.close()
	s.engine.Work.disk.measureSpace()
	if !s.engine.Work.disk.onlyReserve.Load() {
		t.Error("sets are not refused")
	}
	if err := s.engine.Commits.Throttle(context.Background(), payloadOf(set("a", nil))); !errors.Is(err, errs.ErrClosed) {
		t.Errorf("Throttle: %v", err)
	}
}
