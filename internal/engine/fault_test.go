package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/compact"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/vfs"
)

var errDisk = errors.New("the disk fails")

// Whatever call fails while a flush or merge is written, nothing of it stays on
// the disk, no file stays open, and reads go on; opened again, the store has
// everything.
func TestEveryFailureOfWorkIsSurvived(t *testing.T) {
	for n := 1; ; n++ {
		mem := vfs.NewMem()
		faults := faultfs.New(mem, faultfs.Options{})
		fs := newCounting(faults)
		s := newStore(t, fs, func(s *store) { s.cfg.SegmentBytes = 2000; s.cfg.NoMap = true })
		for i := range 2 {
			for k := range 9 {
				key := fmt.Sprint("k", k)
				s.must(s.commit(true, set(key, bulk(key, 10+300*(k%3)+i))))
			}
			if i == 0 {
				s.flush()
			}
		}
		s.seal()
		faults.Inject(faultfs.Fault{Nth: n, Err: errDisk})
		flushed := s.engine.Work.flusher.flushSealed(context.Background())
		merged := error(nil)
		if flushed == nil {
			merged = s.engine.Work.Compact(context.Background())
		}
		hit := faults.Struck() > 0
		faults.Heal()
		if failed := errors.Join(flushed, merged); failed != nil && !errors.Is(failed, errDisk) {
			t.Fatalf("call %d: %v", n, failed)
		}
		verify(s, t, n)
		_ = s.engine.Close()
		fs.checkClosed(t)
		s.mustOpen()
		verify(s, t, n)
		s.close()
		fs.checkClosed(t)
		if !hit {
			t.Logf("%d calls", n-1)
			return
		}
	}
}

func verify(s *store, t *testing.T, n int) {
	t.Helper()
	p := s.pin(0)
	defer p.Release()
	for k := range 9 {
		key := fmt.Sprint("k", k)
		value, _, found := s.lookup(p, key)
		if want := fmt.Sprintf("@%d", 11+300*(k%3)); !found || len(value) > 32 && shown(key, value) != want || len(value) != 11+300*(k%3) {
			t.Fatalf("call %d: %s = %s, %v", n, key, shown(key, value), found)
		}
	}
}

// compact.Execute leaves no file, whatever call fails, and whenever it is cancelled.
func TestExecuteRemovesWhatItWrote(t *testing.T) {
	for n := 1; ; n++ {
		mem := vfs.NewMem()
		faults := faultfs.New(mem, faultfs.Options{})
		fs := newCounting(faults)
		s := newStore(t, fs, func(s *store) { s.cfg.NoMap = true })
		for k := range 20 {
			key := fmt.Sprint("k", k)
			s.must(s.commit(true, set(key, bulk(key, 400))))
		}
		s.seal()
		had := names(t, mem)
		faults.Inject(faultfs.Fault{Nth: n, Err: errDisk})
		hold := s.pin(0)
		out, err := compact.Execute(context.Background(), compact.Input{
			Entries: hold.View().Tables[1].Iterator(),
			Rules:   compact.Rules{History: compact.History{Watermark: s.last}},
			Extract: func(entry.FileNum) bool { return true },
			Move:    hold.View().MoveValue,
			Run:     s.engine.files.NewRunWriter(true, nil, nil),
			Values:  s.engine.files.NewValueWriter, ValueBytes: 3000,
		})
		hit := faults.Struck() > 0
		faults.Heal()
		switch {
		case err == nil && hit && len(out.Values) < 3:
			t.Fatalf("call %d: %d value segments", n, len(out.Values))
		case err != nil && !errors.Is(err, errDisk):
			t.Fatalf("call %d: %v", n, err)
		case err != nil:
			if has := names(t, mem); has != had {
				t.Errorf("call %d: %v left\n%s of\n%s", n, err, has, had)
			}
		}
		hold.Release()
		s.close()
		fs.checkClosed(t)
		if !hit {
			t.Logf("%d calls", n-1)
			return
		}
	}
}
