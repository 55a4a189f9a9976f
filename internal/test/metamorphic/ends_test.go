package metamorphic

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/vfs"
)

// A compaction that ends while the memtable of a crashed session waits for its flush
// records how far the journal is durable. It must not record more of the crashed
// session's last segment than there is, or the flush is refused.
func TestCompactionBeforeFlushOfCrashedSession(t *testing.T) {
	mem := vfs.NewMem()
	hold := make(chan struct{})
	s := newSession(t, faultfs.New(mem, faultfs.Options{Before: nthRun(7, func() { <-hold })}), brock.Options{Tuning: small})
	s.open()
	for i := range 6 {
		s.commit(synced, put(key(i), "x"))
		s.flush()
	}
	// Fill one memtable, with a journal segment that is never sealed.
	for i := 0; s.db.Metrics().Tree.MemtableBytes < s.o.Tuning.MemtableSize; i++ {
		s.commit(buffered, put(key(i), text(key(i), 1, 500)))
	}
	s.sync()
	crashed := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	close(hold)
	s.close()

	compacting, committed, compacted := make(chan struct{}), make(chan struct{}), make(chan struct{})
	first, second := nthRun(1, func() { close(compacting); <-committed }), nthRun(2, func() { <-compacted })
	var once sync.Once
	s.o.FS = faultfs.New(crashed, faultfs.Options{Before: func(op faultfs.Op) {
		first(op)
		second(op)
		if op.Kind == faultfs.SyncData && strings.Contains(op.Path, "MANIFEST") {
			once.Do(func() { close(compacted) })
		}
	}})
	s.open()
	<-compacting
	must(t, "commit", s.db.Set([]byte("a"), []byte("1")))
	close(committed)
	must(t, "flush", s.db.Flush(context.Background()))
	must(t, "verify", s.db.Verify(context.Background(), nil))
	s.close()
}

// nthRun calls do before the nth file of a run is created.
func nthRun(nth int, do func()) func(faultfs.Op) {
	var mu sync.Mutex
	n := 0
	return func(op faultfs.Op) {
		if op.Kind != faultfs.Create || !strings.HasSuffix(op.Path, ".run") {
			return
		}
		mu.Lock()
		n++
		hit := n == nth
		mu.Unlock()
		if hit {
			do()
		}
	}
}
