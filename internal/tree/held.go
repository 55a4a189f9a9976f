package tree

import (
	"time"
)

// longRead is for how long a replaced View is held before that is told.
const longRead = time.Minute

// tellHeld tells Config.OnLongRead of a reader that has held a replaced View for
// longRead, and again whenever that time has doubled. Whoever calls it holds the
// recording lock.
func (t *Tree) tellHeld() {
	if t.cfg.OnLongRead == nil {
		return
	}
	view, since := t.views.OldestReader()
	if view != t.told.view {
		t.told.view, t.told.after = view, 0
	}
	if held := t.now().Sub(since); view != 0 && held >= max(longRead, 2*t.told.after) {
		t.told.after = held
		t.cfg.OnLongRead(t.views.LongReader())
	}
}
