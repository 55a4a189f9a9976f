package space

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// In a store at rest, expired data leaves the files without a call: within a
// minute, or within 1/20 of the time to live if that is longer. Time is the time
// of the synctest bubble, so that timers and expiry use the same clock.
func TestExpiredDataLeavesByItself(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 5 * time.Minute, time.Hour, 30 * 24 * time.Hour} {
		for _, size := range []int{20, 2000} { // inline, separated
			t.Run(fmt.Sprint(ttl, "/", size), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { expiresByItself(t, ttl, size, brock.Options{}) })
			})
		}
	}
}

// Retention by age keeps a delete in the place of an expired entry, not its value.
func TestRetentionKeepsNoExpiredValues(t *testing.T) {
	for _, ttl := range []time.Duration{time.Minute, time.Hour} {
		t.Run(fmt.Sprint(ttl), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Age: 30 * 24 * time.Hour, Versions: 10}}}
				expiresByItself(t, ttl, 2000, o)
			})
		})
	}
}

// Data that expired while the store was closed leaves it within a minute after Open.
func TestExpiredWhileClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := brock.Options{Dir: "/s", FS: vfs.NewMem(), Tuning: brock.Tuning{MemtableSize: 256 << 10, SegmentSize: 1 << 20}}
		for _, compacted := range []bool{false, true} {
			db := assert.Must(brock.Open(o))
			for i := range 300 {
				assert.OK(t, db.BatchSet([]*brock.Entry{brock.NewEntry(fmt.Appendf(nil, "key%06d", i), storetest.RandomBytes(i, 3000)).WithTTL(time.Hour)}))
			}
			if compacted {
				assert.OK(t, db.Compact(t.Context()))
			}
			if n := storedBytes(db); n < 900_000 {
				t.Errorf("%d bytes at Close", n)
			}
			assert.OK(t, db.Close())
			<-time.After(48 * time.Hour)
			db = assert.Must(brock.Open(o))
			<-time.After(time.Minute)
			synctest.Wait()
			if n := storedBytes(db); n > 100_000 {
				t.Errorf("%d bytes are left, compacted: %v\n%v", n, compacted, db.Metrics())
			}
			assert.OK(t, db.Close())
		}
	})
}

// A store without expiring entries never sets the timer of expiry. A store that
// waits for an entry to expire has that one timer, and no goroutine.
func TestTimerOfExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := assert.Must(brock.Open(brock.Options{InMemory: true, Tuning: brock.Tuning{MemtableSize: 256 << 10, SegmentSize: 1 << 20}}))
		defer db.Close()
		is := func(when string, want bool) {
			t.Helper()
			if wait := db.Metrics().Tree.ExpiryWait; wait > 0 != want {
				t.Errorf("%s: the timer is set to %v", when, wait)
			}
		}
		is("at Open", false)
		for i := range 2000 {
			assert.OK(t, db.Set(fmt.Appendf(nil, "key%06d", i%700), storetest.RandomBytes(i, i%2000)))
			is("while writing", false)
		}
		<-time.After(time.Hour)
		synctest.Wait()
		is("at rest", false)
		assert.OK(t, db.BatchSet([]*brock.Entry{brock.NewEntry([]byte("key000001"), []byte("x")).WithTTL(48 * time.Hour)}))
		is("when something will expire", true)
		<-time.After(time.Hour)
		synctest.Wait()
		is("an hour later", true)
		assert.NoGoroutines(t, assert.StackOfReader, assert.StackOfWork)
		<-time.After(48 * time.Hour)
		synctest.Wait()
		is("when it has expired", false)
	})
}

// Expired data leaves real files by the real clock, too.
func TestExpiredFilesShrink(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	t.Parallel()
	dir := t.TempDir()
	db := assert.Must(brock.Open(brock.Options{Dir: dir, Durability: brock.Buffered, Tuning: brock.Tuning{SegmentSize: 4 << 20}}))
	defer db.Close()
	const stays, n, ttl = 100, 5000, 10 * time.Second
	begin := time.Now()
	for i := range n {
		e := brock.NewEntry(fmt.Appendf(nil, "key%06d", i), storetest.RandomBytes(i, 4000))
		if i >= stays {
			e.WithTTL(ttl)
		}
		assert.OK(t, db.BatchSet([]*brock.Entry{e}))
	}
	size := func() (n int64) {
		for _, e := range assert.Must(os.ReadDir(dir)) {
			if info, err := e.Info(); err == nil { // else it was removed since
				n += info.Size()
			}
		}
		return n
	}
	full := size()
	if full < n*4000 && time.Since(begin) < ttl { // else some may have left before
		t.Errorf("%d bytes of files for %d of values", full, n*4000)
	}
	deadline.Wait(t, "the files shrink", func() bool { return size() <= 2*stays*4100+1<<20 })
	t.Logf("%d bytes became %d in %v", full, size(), time.Since(begin).Round(time.Second))
}

// storedBytes is how many bytes a store takes, on disk and in memtables.
func storedBytes(db *brock.DB) int64 {
	m := db.Metrics().Tree
	return m.RunBytes + m.SegmentBytes + m.ForwardingBytes + m.MemtableBytes
}

func expiresByItself(t *testing.T, ttl time.Duration, size int, o brock.Options) {
	o.InMemory, o.Tuning = true, brock.Tuning{MemtableSize: 256 << 10, SegmentSize: 1 << 20}
	db := assert.Must(brock.Open(o))
	defer db.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	n := 4000
	if testing.Short() {
		n = 1000
	}
	const stays = 50
	for i := range n {
		e := brock.NewEntry(fmt.Appendf(nil, "key%06d", rng.IntN(1e6)), storetest.RandomBytes(i, size))
		if i >= stays {
			e.WithTTL(ttl)
		}
		assert.OK(t, db.BatchSet([]*brock.Entry{e}))
	}
	last := time.Now().Add(ttl)
	<-time.After(ttl - time.Minute)
	synctest.Wait()
	if before := storedBytes(db); ttl > time.Minute && before < int64((n-stays)*size) {
		t.Errorf("%d bytes before they have expired", before)
	}
	<-time.After(time.Until(last) + max(time.Minute, ttl/20))
	synctest.Wait()
	// Allow for the entries that stay, and for the least size of a file and a memtable.
	if left := storedBytes(db); left > 2*stays*int64(size+100)+200_000 {
		t.Errorf("%d bytes are left:\n%v", left, db.Metrics())
	}
	assert.Equal(t, "expired bytes that wait", db.Metrics().Tree.ExpiredBytes, 0)
	// Deletes that replace what has expired may be history, which ages.
	if wait := db.Metrics().Tree.ExpiryWait; wait > 0 && o.KeyspaceDefaults.Versions.Age == 0 {
		t.Errorf("a timer is set to %v, though nothing expires", wait)
	}
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		count := 0
		for it, err := range txn.All() {
			assert.OK(t, err)
			assert.Must(it.Value())
			count++
		}
		if count > stays || count < stays/2 {
			t.Errorf("%d items are left of %d", count, stays)
		}
		return nil
	}))
}

// An entry that expires before 1970 has expired, however long before.
func TestEarliestExpiry(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	for _, at := range []time.Time{time.UnixMilli(1), time.UnixMilli(0), time.UnixMilli(-1), time.Unix(-1, 0), time.Time{}.Add(1), time.Unix(-1<<60-12345, 0), time.Unix(math.MinInt64, 0)} {
		assert.OK(t, db.BatchSet([]*brock.Entry{brock.NewEntry([]byte("k"), []byte("v")).WithExpiry(at)}))
		found, err := db.Has([]byte("k"))
		assert.OK(t, err)
		assert.Equal(t, fmt.Sprint("found what expires at the second ", at.Unix()), found, false)
	}
}

// The longest times to live, and times of expiry that are as late as there are, don't overflow.
func TestLatestExpiry(t *testing.T) {
	clock := storetest.NewClock(1_800_000_000_000)
	db := storetest.Open(t, brock.Options{Now: clock.Now})
	longest := time.UnixMilli(clock.Millis.Load() + math.MaxInt64/1_000_000 + 1) // rounded up
	last := time.UnixMilli(math.MaxInt64)
	for _, c := range []struct {
		entry *brock.Entry
		want  time.Time
	}{
		{new(brock.Entry).WithTTL(math.MaxInt64), longest},
		{new(brock.Entry).WithTTL(1), time.UnixMilli(clock.Millis.Load() + 1)},
		{new(brock.Entry).WithExpiry(last), last},
		{new(brock.Entry).WithExpiry(last.Add(time.Hour)), last},
		{new(brock.Entry).WithExpiry(time.Unix(1<<63-62135596801, 999999999)), last}, // the last time.Time
	} {
		c.entry.Key = []byte("k")
		assert.OK(t, db.BatchSet([]*brock.Entry{c.entry}))
		assert.OK(t, db.View(func(txn *brock.Txn) error {
			item, err := txn.Get([]byte("k"))
			assert.OK(t, err)
			assert.Equal(t, "expires", item.ExpiresAt(), c.want)
			return nil
		}))
	}
	ks := storetest.OpenKeyspace(t, db, "sessions", brock.KeyspaceOptions{TTL: math.MaxInt64})
	assert.OK(t, ks.Set([]byte("k"), nil))
	assert.OK(t, ks.View(func(txn *brock.Txn) error {
		item, err := txn.Get([]byte("k"))
		assert.OK(t, err)
		assert.Equal(t, "expires by the keyspace's TTL", item.ExpiresAt(), longest)
		return nil
	}))
}

// A time to live counts from the write, however old its transaction is. The transaction sees the
// entry, also if the clock was set back since it began.
func TestTimeToLiveCountsFromTheWrite(t *testing.T) {
	for _, passes := range []time.Duration{time.Hour, -time.Hour} {
		clock := storetest.NewClock(1_800_000_000_000)
		db := storetest.Open(t, brock.Options{Now: clock.Now, KeyspaceDefaults: brock.KeyspaceOptions{TTL: time.Minute}})
		txn := db.NewTransaction(true)
		assert.OK(t, txn.Set([]byte("early"), nil)) // reads the clock
		clock.Add(passes)
		assert.OK(t, txn.SetEntry(brock.NewEntry([]byte("late"), nil).WithTTL(time.Second)))
		assert.OK(t, txn.Set([]byte("default"), nil))
		assert.Equal(t, "in the transaction", storetest.ShowItems(txn.All()), "default= early= late=")
		assert.OK(t, txn.Commit())
		want := "default= late="
		if passes < 0 {
			want = "default= early= late="
		}
		assert.OK(t, db.View(func(txn *brock.Txn) error {
			assert.Equal(t, "after it", storetest.ShowItems(txn.All()), want)
			return nil
		}))
	}
}
