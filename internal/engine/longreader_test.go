package engine

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock/report"
	"github.com/brockdb/brock/vfs"
)

// A reader that is held for an hour of overwrites keeps the files of its own View
// and nothing else: what is written meanwhile is as if it were not there.
func TestLongReaderKeepsItsViewAlone(t *testing.T) {
	var told []report.Reader
	s := newStore(t, vfs.NewMem(), func(s *store) {
		s.cfg.OnLongReader = func(h report.Reader) { told = append(told, h) }
	})
	defer s.close()
	round := func(n int) {
		for i := range 100 {
			s.must(s.commit(false, set(fmt.Sprintf("key %02d", i), fmt.Appendf(nil, "%01000d", n))))
		}
		s.flush()
		s.must(s.engine.Work.Compact(t.Context()))
	}
	round(0)
	alone := s.engine.Metrics()
	pin := s.pin(0)
	pc, _, _, _ := runtime.Caller(0)
	pin.SetOrigin(pc)
	for n := range 60 {
		s.clock += time.Minute.Milliseconds()
		round(n + 1)
	}
	st := s.engine.Metrics()
	if st.RunEntries != alone.RunEntries || st.RunBytes > alone.RunBytes+4096 {
		t.Errorf("%d entries in %d bytes of runs, without the reader %d in %d", st.RunEntries, st.RunBytes, alone.RunEntries, alone.RunBytes)
	}
	h := s.engine.views.LongReader()
	if h.Version != uint64(pin.Version()) || !strings.Contains(h.Begun, "TestLongReaderKeepsItsViewAlone") || h.For != 59*time.Minute {
		t.Errorf("held: %+v", h)
	}
	if most := alone.RunBytes + alone.SegmentBytes; h.FileBytes == 0 || h.FileBytes > most {
		t.Errorf("%d bytes of files are held, the reader's View has %d", h.FileBytes, most)
	}
	for i := range 100 {
		if value, _, found := s.lookup(pin, fmt.Sprintf("key %02d", i)); !found || string(value) != fmt.Sprintf("%01000d", 0) {
			t.Fatalf("key %d: %.20q, %v", i, value, found)
		}
	}
	// Told after one minute, and whenever the time has doubled.
	var after []time.Duration
	for _, h := range told {
		after = append(after, h.For)
	}
	if got, want := fmt.Sprint(after), "[1m0s 2m0s 4m0s 8m0s 16m0s 32m0s]"; got != want {
		t.Errorf("told after %s, want %s", got, want)
	}
	pin.Release()
	s.engine.views.ReclaimViews()
	if h := s.engine.views.LongReader(); h != (report.Reader{}) {
		t.Errorf("held when nobody reads: %+v", h)
	}
}
