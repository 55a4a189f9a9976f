package txn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// BenchmarkContention adds to durable counters by Update, in a store on disk: one
// writer alone, and many workers on one counter or on several. It reports additions a
// second, and for many the share of the lone writer's rate, the 99th percentile of the
// time that a call takes in fair shares (workers divided by the rate), the same counted
// in the calls of others that ended meanwhile, and the calls that gave up.
func BenchmarkContention(b *testing.B) {
	var alone float64
	for _, c := range []struct{ workers, counters int }{{1, 1}, {4, 1}, {64, 1}, {64, 4}, {64, 64}} {
		b.Run(fmt.Sprintf("workers=%d/counters=%d", c.workers, c.counters), func(b *testing.B) {
			db := storetest.Open(b, brock.Options{Dir: b.TempDir()})
			took, passed := make([][]time.Duration, c.workers), make([][]int64, c.workers)
			var done atomic.Int64
			gaveUp := make([]int, c.workers)
			b.ResetTimer()
			began := time.Now()
			var work sync.WaitGroup
			for w := range c.workers {
				work.Go(func() {
					key := fmt.Appendf(nil, "counter %d", w%c.counters)
					for range b.N {
						begin, before := time.Now(), done.Load()
						err := db.Update(func(txn *brock.Txn) error { return addOne(txn, key) })
						took[w] = append(took[w], time.Since(begin))
						passed[w] = append(passed[w], done.Add(1)-before)
						if errors.Is(err, brock.ErrConflict) {
							gaveUp[w]++
						} else if err != nil {
							b.Error(err)
						}
					}
				})
			}
			work.Wait()
			rate := float64(c.workers*b.N) / time.Since(began).Seconds()
			all, failed := slices.Sorted(slices.Values(slices.Concat(took...))), 0
			adds := slices.Sorted(slices.Values(slices.Concat(passed...)))
			for _, n := range gaveUp {
				failed += n
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(rate, "adds/s")
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-us")
			if c.workers == 1 {
				alone = rate
				return
			}
			b.ReportMetric(rate/alone, "of-alone")
			b.ReportMetric(all[len(all)*99/100].Seconds()*rate/float64(c.workers), "p99-shares")
			b.ReportMetric(float64(adds[len(adds)*99/100])/float64(c.workers), "p99-passes")
			b.ReportMetric(100*float64(failed)/float64(len(all)), "%gave-up")
		})
	}
}

// addOne adds one to the counter at key.
func addOne(txn *brock.Txn, key []byte) error {
	var n uint64
	switch it, err := txn.Get(key); {
	case err == nil:
		v, err := it.Value()
		if err != nil {
			return err
		}
		n = binary.BigEndian.Uint64(v)
	case !errors.Is(err, brock.ErrKeyNotFound):
		return err
	}
	return txn.Set(key, binary.BigEndian.AppendUint64(nil, n+1))
}
