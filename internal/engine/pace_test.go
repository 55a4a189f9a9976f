package engine

import (
	"testing"
	"time"
)

// Work pauses after steps in which somebody has read, three times as long as the step, and not for
// ever.
func TestWorkGivesWayToReaders(t *testing.T) {
	var reads int64
	var slept time.Duration
	now := time.Unix(1, 0)
	p := pace{
		reads: func() int64 { return reads },
		now:   func() time.Time { return now },
		sleep: func(d time.Duration) { slept, now = slept+d, now.Add(d) },
	}
	step := func(took time.Duration, read int64, want time.Duration) {
		t.Helper()
		now, reads, slept = now.Add(took), reads+read, 0
		if p.step(); slept != want {
			t.Errorf("after %v with %d reads: a pause of %v, want %v", took, read, slept, want)
		}
	}
	step(time.Hour, 5, 0) // the first step only begins
	step(2*paceStep, 0, 0)
	step(2*paceStep, 1, 6*paceStep)
	step(2*paceStep, 0, 0)
	step(paceStep/2, 1, 0) // too early to look
	step(paceStep/2, 0, 3*paceStep)
	step(time.Second, 100, longPause)
	for p.paused <= mostPauses {
		step(time.Second, 1, longPause)
	}
	step(time.Second, 1, 0)
}
