package view

import (
	"time"
)

// LongReaders tells of readers that keep a replaced View.
type LongReaders struct {
	Views *Set
	Now   func() time.Time
	Tell  func(LongReader) // may be nil

	// What it was last told of:
	view  uint64
	after time.Duration
}

// longRead is for how long a replaced View is held before that is told.
const longRead = time.Minute

// Look tells of the oldest reader if it has held a replaced View for longRead, and
// again whenever that time has doubled. One goroutine at a time may call it.
func (l *LongReaders) Look() {
	if l.Tell == nil {
		return
	}
	id, since := l.Views.OldestReader()
	if id != l.view {
		l.view, l.after = id, 0
	}
	if held := l.Now().Sub(since); id != 0 && held >= max(longRead, 2*l.after) {
		l.after = held
		l.Tell(l.Views.LongReader())
	}
}
