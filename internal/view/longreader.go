package view

import (
	"fmt"
	"runtime"
	"time"

	"github.com/brockdb/brock/report"
)

// LongReader describes the oldest reader: its version, where it began and for how long its View was
// replaced, at least 1 ns; and what all old Views need alone. It looks at all of these, and holds
// the mutex meanwhile, so call it seldom, as for metrics.
func (s *Set) LongReader() report.Reader {
	l, _ := s.oldestReader()
	s.mu.Lock()
	defer s.mu.Unlock()
	// Each resource counts once, and only if the current View is without it.
	seen := make(map[*shared]bool)
	s.current.Load().eachResource(func(r *shared) { seen[r] = true })
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
				l.FileBytes += f.fileBytes()
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

// oldestReader describes the oldest reader, and returns the number of the View that it holds; 0 if
// that is the current one, which costs nothing, or there is no reader.
func (s *Set) oldestReader() (l report.Reader, view uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, version, id, origin := s.readers.oldestActive()
	l.Version, l.Begun = uint64(version), formatOrigin(origin)
	for _, r := range s.replaced {
		if r.view.ID == id {
			l.For, view = max(s.now().Sub(r.since), 1), id // 0 says that the View is current
		}
	}
	return l, view
}

// longRead is how long a replaced View must be held to be reported.
const longRead = time.Minute

// ReportLongReader tells of the oldest reader if it has held a replaced View for longRead, and again
// each time that the time has doubled. Call it from time to time, on one goroutine at
// a time.
func (s *Set) ReportLongReader(tell func(report.Reader)) {
	oldest, id := s.oldestReader()
	// Another View: the long reader is gone, and its report does not count for the next one.
	if id != s.toldView {
		s.toldView, s.toldFor = id, 0
	}
	if id != 0 && oldest.For >= max(longRead, 2*s.toldFor) {
		s.toldFor = oldest.For
		tell(s.LongReader())
	}
}
