package view

import (
	"fmt"
	"runtime"
	"time"

	"github.com/brockdb/brock/report"
)

// LongReader describes the oldest reader: its version, where it began and for how long its View was
// replaced, at least 1 ns; and what all old Views need alone. It looks at all of these, and holds the
// mutex meanwhile, so call it seldom, as for metrics.
func (s *Set) LongReader() (l report.Reader) {
	_, version, _, origin := s.readers.active()
	l.Version, l.Begun = uint64(version), formatOrigin(origin)
	// At least 1, as 0 says that the View is current.
	if view, since := s.oldestReader(); view != 0 {
		l.For = max(s.cfg.Now().Sub(since), 1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Each resource counts once, and only if the current View is without it.
	seen := make(map[*shared]bool)
	s.current.Load().each(func(r *shared) { seen[r] = true })
	fresh := func(r *shared) bool {
		old := seen[r]
		seen[r] = true
		return !old
	}
	for _, r := range s.replaced {
		for _, m := range r.view.Tables {
			if fresh(&m.shared) {
				l.MemoryBytes += m.Bytes()
			}
		}
		for _, run := range r.view.Runs {
			if fresh(&run.shared) {
				l.FileBytes += int64(run.Meta().FileBytes())
			}
		}
		for _, f := range r.view.Segments.Files {
			if fresh(&f.shared) {
				l.FileBytes += f.size()
			}
		}
	}
	return l
}

// formatOrigin returns function, file and line of a program counter; empty for 0.
func formatOrigin(pc uintptr) string {
	fn := runtime.FuncForPC(pc)
	if fn == nil {
		return ""
	}
	file, line := fn.FileLine(pc)
	return fmt.Sprintf("%s (%s:%d)", fn.Name(), file, line)
}

// oldestReader returns the number of the View that the oldest reader holds and when
// it was replaced; 0 if it is the current one or there is no reader.
func (s *Set) oldestReader() (view uint64, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	readers, _, view, _ := s.readers.active()
	// Of the replaced Views only: one that is current costs nothing.
	for _, r := range s.replaced {
		if readers > 0 && r.view.ID == view {
			return view, r.since
		}
	}
	return 0, time.Time{}
}

// LongReaders reports long readers: those that have held a replaced View for a minute.
type LongReaders struct {
	Views *Set                // whose readers are looked at
	Now   func() time.Time    // the clock
	Tell  func(report.Reader) // gets the reports

	// The last report:
	view  uint64        // number of the View that was held; 0: none
	after time.Duration // for how long it had been held
}

// longRead is how long a replaced View must be held to be reported.
const longRead = time.Minute

// Look reports the oldest reader if it has held a replaced View for longRead, and again
// each time that the time has doubled. Call it from time to time, on one goroutine at
// a time.
func (l *LongReaders) Look() {
	id, since := l.Views.oldestReader()
	// Another View: the long reader is gone, and its report does not count for the next one.
	if id != l.view {
		l.view, l.after = id, 0
	}
	if held := l.Now().Sub(since); id != 0 && held >= max(longRead, 2*l.after) {
		l.after = held
		l.Tell(l.Views.LongReader())
	}
}
