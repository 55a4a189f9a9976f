package watch

import (
	"context"
	"fmt"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
)

// BenchmarkWatch reads one commit of one change of 100 bytes for each n, from a history that is there.
func BenchmarkWatch(b *testing.B) {
	db := assert.Must(brock.Open(brock.Options{Dir: b.TempDir(), Durability: brock.Buffered, FeedRetention: brock.FeedRetention{Bytes: 1 << 40}}))
	defer db.Close()
	var start brock.Position
	for c, err := range db.Watch(b.Context(), brock.WatchOptions{}) {
		assert.OK(b, err)
		start = c.Position()
		break
	}
	value := make([]byte, 100)
	for i := range b.N {
		assert.OK(b, db.Set(fmt.Appendf(nil, "key %d", i%10_000), value))
	}
	assert.OK(b, db.Sync(b.Context()))
	b.ReportAllocs()
	b.ResetTimer()
	n := 0
	for c, err := range db.Watch(b.Context(), brock.WatchOptions{After: start}) {
		assert.OK(b, err)
		for ch, err := range c.Changes() {
			assert.OK(b, err)
			if _, err := ch.Value(); err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n >= b.N {
			break
		}
	}
}

// BenchmarkCommitsBesideWatches commits single sets, Buffered and Synced, while some Watches read them.
func BenchmarkCommitsBesideWatches(b *testing.B) {
	for _, d := range []brock.Durability{brock.Buffered, brock.Synced} {
		for _, watches := range []int{0, 1} {
			b.Run(fmt.Sprintf("%d/watches=%d", d, watches), func(b *testing.B) {
				db := assert.Must(brock.Open(brock.Options{Dir: b.TempDir(), Durability: d}))
				ctx, cancel := context.WithCancel(b.Context())
				for range watches {
					go func() {
						for range db.Watch(ctx, brock.WatchOptions{Buffered: true}) {
						}
					}()
				}
				value := make([]byte, 100)
				i := 0
				for b.Loop() {
					i++
					assert.OK(b, db.Set(fmt.Appendf(nil, "key %d", i%10_000), value))
				}
				cancel()
				assert.OK(b, db.Close())
			})
		}
	}
}
