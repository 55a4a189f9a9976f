package read

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// stream runs a Stream and returns "key=value" of all that came, in the order of parts, and the
// number of parts. Each part comes once.
func stream(t *testing.T, ks *brock.Keyspace, o brock.StreamOptions) (pairs []string, parts int) {
	t.Helper()
	var mu sync.Mutex
	got := map[int][]string{}
	assert.OK(t, ks.Stream(t.Context(), o, func(part int, items iter.Seq2[*brock.Item, error]) error {
		list := []string{}
		for it, err := range items {
			if err != nil {
				return err
			}
			list = append(list, fmt.Sprintf("%s=%.20s", it.Key(), assert.Must(it.Value())))
		}
		mu.Lock()
		defer mu.Unlock()
		if got[part] != nil {
			t.Errorf("part %d came twice", part)
		}
		got[part] = list
		return nil
	}))
	for i := range len(got) {
		pairs = append(pairs, got[i]...)
	}
	return pairs, len(got)
}

// TestStream: each key of a range comes exactly once and in order, whatever the keys, the range and
// the number of workers: also of old versions, and in stores that are only read.
func TestStream(t *testing.T) {
	mem := vfs.NewMem()
	o := brock.Options{Dir: "db", FS: mem, KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Age: time.Hour}}}
	db := assert.Must(brock.Open(o))
	fill := map[string]func(ks *brock.Keyspace){
		"empty": func(*brock.Keyspace) {},
		"one":   func(ks *brock.Keyspace) { assert.OK(t, ks.Set([]byte("k"), []byte("v"))) },
		"skewed": func(ks *brock.Keyspace) { // nearly all keys begin alike, and one value is most of the bytes
			b := db.NewBatch().In(ks)
			for i := range 3000 {
				assert.OK(t, b.Set(fmt.Appendf(nil, "k%06d", i), []byte("v")))
			}
			assert.OK(t, b.Set([]byte("a"), make([]byte, 1<<20)))
			assert.OK(t, b.Set([]byte("z"), nil))
			assert.Must(b.Commit(t.Context(), 0))
		},
		"holes": func(ks *brock.Keyspace) { // runs and a memtable, deletes, and a range that is gone
			for i := range 4000 {
				assert.OK(t, ks.Set(fmt.Appendf(nil, "k%06d", i*7919%4000), fmt.Append(nil, i)))
				if i == 3000 {
					assert.OK(t, db.Flush(t.Context()))
				}
			}
			assert.OK(t, ks.DeleteRange([]byte("k000500"), []byte("k002900")))
			assert.OK(t, ks.Delete([]byte("k000077")))
		},
	}
	check := func(db *brock.DB) {
		for name := range fill {
			ks := storetest.OpenKeyspace(t, db, name)
			last := db.Version()
			for _, o := range []brock.StreamOptions{
				{}, {Workers: 1}, {Workers: 3}, {Workers: 1000, KeysOnly: true}, {Prefix: []byte("k0001")}, {Lower: []byte("k000400"), Upper: []byte("k003000")},
				{Lower: []byte("k2"), Upper: []byte("k1")}, {Prefix: []byte("k00"), Lower: []byte("k003"), Workers: 2}, {ReadAt: last}, {ReadAt: last - 1},
			} {
				var want []string
				assert.OK(t, ks.ViewContext(t.Context(), brock.TxnOptions{ReadAt: o.ReadAt}, func(txn *brock.Txn) error {
					for it, err := range txn.Items(brock.IteratorOptions{Lower: o.Lower, Upper: o.Upper, Prefix: o.Prefix}) {
						assert.OK(t, err)
						want = append(want, fmt.Sprintf("%s=%.20s", it.Key(), assert.Must(it.Value())))
					}
					return nil
				}))
				got, parts := stream(t, ks, o)
				if !slices.Equal(got, want) {
					t.Errorf("%s, %+v: %d pairs, want %d", name, o, len(got), len(want))
				}
				if name == "skewed" && o.Prefix == nil && o.Lower == nil && (parts < 8 || parts > 8*max(o.Workers, runtime.GOMAXPROCS(0))) {
					t.Errorf("%+v: %d parts", o, parts)
				}
			}
		}
	}
	for _, name := range []string{"holes", "empty", "skewed", "one"} {
		fill[name](storetest.OpenKeyspace(t, db, name))
	}
	check(db)
	o.Mode = brock.Follow
	follower := assert.Must(brock.Open(o))
	check(follower)
	assert.OK(t, follower.Close())
	assert.OK(t, db.Close())
	o.Mode = brock.ReadOnly
	reader := assert.Must(brock.Open(o))
	check(reader)
	assert.OK(t, reader.Close())
}

// TestStreamBesideWriters: a Stream sees one version, whatever is written, deleted and compacted
// meanwhile, and at most so many parts at once.
func TestStreamBesideWriters(t *testing.T) {
	db := storetest.Open(t, brock.Options{Tuning: brock.Tuning{MemtableSize: 256 << 10}})
	ks := storetest.OpenKeyspace(t, db, "k")
	const n = 2000
	rewrite := func(round int) {
		b := db.NewBatch().In(ks)
		for i := range n {
			assert.OK(t, b.Set(fmt.Appendf(nil, "k%06d", i), fmt.Appendf(nil, "%08d", round)))
		}
		assert.Must(b.Commit(t.Context(), brock.Buffered))
	}
	rewrite(0)
	stop := make(chan struct{})
	var writers sync.WaitGroup
	writers.Go(func() {
		for round := 1; ; round++ {
			select {
			case <-stop:
				return
			default:
			}
			rewrite(round)
			if round%10 == 0 {
				assert.OK(t, db.Compact(t.Context()))
			}
		}
	})
	for range 10 {
		var busy, most atomic.Int64
		var mu sync.Mutex
		rounds, keys := map[string]bool{}, 0
		assert.OK(t, ks.Stream(t.Context(), brock.StreamOptions{Workers: 3}, func(part int, items iter.Seq2[*brock.Item, error]) error {
			if now := busy.Add(1); now > 3 {
				most.Store(now)
			}
			defer busy.Add(-1)
			for it, err := range items {
				if err != nil {
					return err
				}
				v := string(assert.Must(it.Value()))
				mu.Lock()
				rounds[v] = true
				keys++
				mu.Unlock()
			}
			return nil
		}))
		if len(rounds) != 1 || keys != n || most.Load() > 0 {
			t.Errorf("%d keys of %d commits, %d parts at once", keys, len(rounds), most.Load())
		}
	}
	close(stop)
	writers.Wait()
}

// TestStreamEnds: the first error ends a Stream and is returned, whether fn returns it or only its
// items yield it, and so does the end of the context, of the store, or of fn's goroutine.
func TestStreamEnds(t *testing.T) {
	mem := vfs.NewMem()
	db := assert.Must(brock.Open(brock.Options{Dir: "db", FS: mem}))
	ks := storetest.OpenKeyspace(t, db, "k")
	b := db.NewBatch().In(ks)
	for i := range 20_000 {
		assert.OK(t, b.Set(fmt.Appendf(nil, "k%06d", i), []byte("v")))
	}
	assert.Must(b.Commit(t.Context(), 0))
	o := brock.StreamOptions{Workers: 4}
	ours := errors.New("ours")
	walk := func(items iter.Seq2[*brock.Item, error]) (n int, last error) {
		for _, err := range items {
			n, last = n+1, err
		}
		return n, last
	}
	var begun atomic.Int64
	// The others are in the middle of a part, and find out there.
	var seen atomic.Int64
	failed := make(chan struct{})
	err := ks.Stream(t.Context(), o, func(part int, items iter.Seq2[*brock.Item, error]) error {
		if begun.Add(1) == 4 {
			close(failed)
			return ours
		}
		for _, err := range items {
			if err != nil {
				seen.Add(1)
				if !errors.Is(err, ours) {
					t.Errorf("part %d: %v", part, err)
				}
				return fmt.Errorf("another: %w", err)
			}
			<-failed
		}
		return nil
	})
	if err != ours || begun.Load() > 8 || seen.Load() == 0 {
		t.Errorf("%v, want ours; %d parts begun, %d have seen it", err, begun.Load(), seen.Load())
	}

	ctx, cancel := context.WithCancel(t.Context())
	err = ks.Stream(ctx, o, func(part int, items iter.Seq2[*brock.Item, error]) error {
		cancel()
		_, last := walk(items)
		assert.Error(t, "items", last, context.Canceled)
		return nil // it forgets the error
	})
	assert.Error(t, "cancelled", err, context.Canceled)
	assert.Error(t, "cancelled before", ks.Stream(ctx, o, func(int, iter.Seq2[*brock.Item, error]) error {
		t.Error("fn was called")
		return nil
	}), context.Canceled)

	done := make(chan error)
	go func() { // if fn ends its goroutine, that of the caller goes on
		done <- ks.Stream(t.Context(), o, func(part int, items iter.Seq2[*brock.Item, error]) error {
			if part == 3 {
				runtime.Goexit()
			}
			return nil
		})
	}()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "not returned") {
		t.Errorf("after Goexit: %v", err)
	}

	assert.OK(t, ks.Stream(t.Context(), o, func(part int, items iter.Seq2[*brock.Item, error]) error {
		for range items {
			break // who has seen enough of a part
		}
		return nil
	}))
	assert.Error(t, "nil", ks.Stream(t.Context(), o, nil), brock.ErrInvalid)
	var nothing context.Context
	nop := func(int, iter.Seq2[*brock.Item, error]) error { return nil }
	assert.Error(t, "no context", ks.Stream(nothing, o, nop), brock.ErrInvalid)
	for _, o := range []brock.StreamOptions{{Workers: -1}, {Workers: 1025}, {ReadAt: 1 << 40}} {
		assert.Error(t, fmt.Sprintf("%+v", o), ks.Stream(t.Context(), o, nop), brock.ErrInvalid)
	}
	assert.Error(t, "zero", new(brock.Keyspace).Stream(t.Context(), o, nop), brock.ErrClosed)

	var kept iter.Seq2[*brock.Item, error]
	assert.OK(t, ks.Stream(t.Context(), o, func(part int, items iter.Seq2[*brock.Item, error]) error {
		if part == 0 {
			kept = items
		}
		return nil
	}))
	_, last := walk(kept)
	assert.Error(t, "items behind the end", last, brock.ErrTxnDone)

	var once sync.Once
	err = ks.Stream(t.Context(), o, func(part int, items iter.Seq2[*brock.Item, error]) error {
		once.Do(func() { assert.OK(t, db.Close()) })
		_, last := walk(items)
		return last
	})
	assert.Error(t, "closed", err, brock.ErrClosed)
	assert.Error(t, "closed before", ks.Stream(t.Context(), o, nop), brock.ErrClosed)
}
