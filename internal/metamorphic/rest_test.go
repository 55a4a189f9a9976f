package metamorphic

import (
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock"
)

// works counts pieces of background work, those that failed too.
type works struct{ atomic.Int64 }

// count has the events of a store counted, beside what they did.
func (n *works) count(e *brock.Events) {
	count := func(brock.WorkInfo) { n.Add(1) }
	e.Flush, e.Compaction, e.Collection, e.Spill = count, count, count, count
}

const (
	restLook  = 2 * time.Millisecond
	restAfter = 20 // times IdleAfter without any work is rest
	restLate  = 20 * time.Second
)

// rest waits until no work was done for some time, and reports what goes on if
// that never comes. Nobody writes. If the store is alone in this process, it is
// checked that no goroutine of it works.
func (n *works) rest(idleAfter time.Duration, alone bool) (restless string) {
	begin := time.Now()
	since, before := begin, n.Load()
	for time.Since(begin) < restLate {
		<-time.After(restLook)
		if now := n.Load(); now != before || alone && working() {
			since, before = time.Now(), now
		}
		if time.Since(since) >= restAfter*max(idleAfter, restLook) {
			return ""
		}
	}
	stacks := make([]byte, 1<<20)
	return string(stacks[:runtime.Stack(stacks, true)])
}

// working reports whether a goroutine of this process does background work.
func working() bool {
	stacks := make([]byte, 1<<20)
	return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "internal/jobs.(*Pool).work")
}
