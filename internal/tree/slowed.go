package tree

import (
	"fmt"
	"sync"
	"time"
)

// Stall is the begin or the end of a time in which writers are slowed.
type Stall struct {
	Begin  bool
	Reason string        // what lags behind
	Took   time.Duration // at its end: how long it lasted
}

// slowed tells Config.OnStall of the times in which writers are slowed: one
// begins with the first writer that meets Throttle's limits, and ends when work has
// caught up to well below them, so that it spans the waits of many.
type slowed struct {
	mu     sync.Mutex // held over OnStall, which so is told in order
	since  time.Time  // zero while writers are not slowed
	reason string
	space  bool // they were, to begin with, for garbage
}

// tell looks whether such a time has begun, if a writer asks, or ended.
func (s *slowed) tell(t *Tree, writer bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := t.views.Current()
	sealed, runs := len(v.Tables)-1, len(v.Runs)
	switch begun := !s.since.IsZero(); {
	case begun && sealed < freeTables && runs <= freeRuns && t.space.brake() == 0 && (!s.space || t.space.calm()):
		s.endLocked(t)
	case !begun && writer && (sealed > freeTables || runs > freeRuns || t.space.brake() > 0):
		s.since, s.space = time.Now(), sealed <= freeTables && runs <= freeRuns
		switch {
		case sealed > freeTables:
			s.reason = fmt.Sprintf("%d memtables wait to be flushed", sealed)
		case runs > freeRuns:
			s.reason = fmt.Sprintf("%d runs wait to be merged", runs)
		default:
			s.reason = "garbage waits to be collected"
		}
		if t.cfg.OnStall != nil {
			t.cfg.OnStall(Stall{Begin: true, Reason: s.reason})
		}
	}
}

// end ends such a time because the tree closes.
func (s *slowed) end(t *Tree) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.since.IsZero() {
		s.endLocked(t)
	}
}

func (s *slowed) endLocked(t *Tree) {
	if t.cfg.OnStall != nil {
		t.cfg.OnStall(Stall{Reason: s.reason, Took: time.Since(s.since)})
	}
	s.since = time.Time{}
}
