package metamorphic

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/deadline"
)

// works counts pieces of background work, failed ones too.
type works struct{ atomic.Int64 }

// count counts the events of a store, and then calls the handlers that were set.
func (n *works) count(e *brock.Events) {
	count := func(brock.WorkInfo) { n.Add(1) }
	e.Flush, e.Compaction, e.Collection, e.Spill = count, count, count, count
}

const (
	restLook  = 2 * time.Millisecond
	restAfter = 20 // times IdleAfter without any work is rest
)

// rest waits until no background work was done for restAfter, and reports the work if
// it never ends. Nobody writes. If the store is the only one in this process, no
// goroutine may do background work then.
func (n *works) rest(t testing.TB, idleAfter time.Duration, alone bool) (restless string) {
	begin := time.Now()
	since, before := begin, n.Load()
	for limit := deadline.Patience(t); time.Since(begin) < limit; {
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
	return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "internal/base/jobs.(*Pool).work")
}
