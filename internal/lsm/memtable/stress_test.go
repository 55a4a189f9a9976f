package memtable

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
)

// One writer adds the versions 1, 2, … of a fixed set of keys; readers and
// walkers check that they see all that was published before they began, in order.
func TestReadersBesideTheWriter(t *testing.T) {
	const keys, versions = 200, 12000
	tab := New(Options{Seed: seed, Limit: 1 << 20})
	keyOf := func(i int) []byte { return fmt.Appendf(nil, "vsz=00016-k=%010d", i*i) }
	var published atomic.Uint64
	var done atomic.Bool
	var wg sync.WaitGroup
	// version v sets key v%keys to v
	expect := func(i int, at uint64) uint64 {
		if at < uint64(i) {
			return 0
		}
		v := at - (at-uint64(i))%keys
		return v
	}
	for n := range 2 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(n)))
			var e entry.Entry
			for !done.Load() {
				at, i := published.Load(), r.IntN(keys)
				key := keyOf(i)
				ok := tab.Get(key, checksum.HashKey(seed, key), entry.Version(at), &e)
				if want := expect(i, at); ok != (want != 0) || ok && (uint64(e.Version) != want || binary.LittleEndian.Uint64(e.Value) != want) {
					t.Errorf("Get(%s, %d) = %d, %v, want %d", key, at, e.Version, ok, want)
					return
				}
				if since := at - min(at, uint64(r.IntN(3000))); since < at && !tab.ChangedSince(nil, nil, entry.Version(since)) {
					t.Errorf("nothing changed from %d to %d", since, at)
					return
				}
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			for !done.Load() {
				at := published.Load()
				it, seen := tab.Iterator(), uint64(0)
				var last entry.Entry
				for ok := it.First(); ok; ok = it.Next() {
					e := it.Entry()
					if seen > 0 && entry.Compare(&last, e) >= 0 {
						t.Errorf("%s@%d after %s@%d", e.Key, e.Version, last.Key, last.Version)
					}
					if uint64(e.Version) <= at {
						seen++
					}
					last = *e
				}
				if seen != at {
					t.Errorf("%d of %d entries", seen, at)
				}
				back := uint64(0)
				for ok := it.Last(); ok; ok = it.Prev() {
					if uint64(it.Entry().Version) <= at {
						back++
					}
				}
				if back != at {
					t.Errorf("%d of %d entries backward", back, at)
				}
				it.Close()
				if t.Failed() {
					return
				}
			}
		})
	}
	var value [16]byte
	for v := uint64(1); v <= versions && !t.Failed(); v++ {
		binary.LittleEndian.PutUint64(value[:], v)
		add(t, tab, entry.Entry{Key: keyOf(int(v % keys)), Version: entry.Version(v), Value: value[:]})
		published.Store(v)
		if e, ok := get(tab, string(keyOf(int(v%keys))), entry.MaxVersion); !ok || !bytes.Equal(e.Value, value[:]) {
			t.Fatalf("version %d is not seen by its writer", v)
		}
	}
	done.Store(true)
	wg.Wait()
}
