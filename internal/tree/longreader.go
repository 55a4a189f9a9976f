package tree

import (
	"time"

	"github.com/brockdb/brock/internal/view"
)

// longReaders tells of readers that keep a replaced View.
type longReaders struct {
	views *view.Set
	now   func() time.Time
	tell  func(view.LongReader) // may be nil

	// What it was last told of:
	view  uint64
	after time.Duration
}

// longRead is for how long a replaced View is held before that is told.
const longRead = time.Minute

// look tells of the oldest reader if it has held a replaced View for longRead, and
// again whenever that time has doubled. One goroutine at a time may call it.
func (l *longReaders) look() {
	if l.tell == nil {
		return
	}
	id, since := l.views.OldestReader()
	if id != l.view {
		l.view, l.after = id, 0
	}
	if held := l.now().Sub(since); id != 0 && held >= max(longRead, 2*l.after) {
		l.after = held
		l.tell(l.views.LongReader())
	}
}
