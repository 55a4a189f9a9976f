package view

import (
	"time"

	"github.com/brockdb/brock/report"
)

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
	id, since := l.Views.OldestReader()
	// Another View: the long reader is gone, and its report does not count for the next one.
	if id != l.view {
		l.view, l.after = id, 0
	}
	if held := l.Now().Sub(since); id != 0 && held >= max(longRead, 2*l.after) {
		l.after = held
		l.Tell(l.Views.LongReader())
	}
}
