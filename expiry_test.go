package brock

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// In a store at rest, expired data leaves the files within a minute or, if that
// is more, a twentieth of the time to live; nothing needs to be called. Time is
// the bubble's, so that timers and expiry go by the same clock.
func TestExpiredDataLeavesByItself(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 5 * time.Minute, time.Hour, 30 * 24 * time.Hour} {
		for _, size := range []int{20, 2000} { // inline, separated
			t.Run(fmt.Sprint(ttl, "/", size), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { expiresByItself(t, ttl, size) })
			})
		}
	}
}

func expiresByItself(t *testing.T, ttl time.Duration, size int) {
	db := must2(Open(Options{InMemory: true, Tuning: Tuning{MemtableSize: 256 << 10, SegmentSize: 1 << 20}}))
	defer db.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	n := 4000
	if testing.Short() {
		n = 1000
	}
	const stays = 50
	for i := range n {
		e := NewEntry(fmt.Appendf(nil, "key%06d", rng.IntN(1e6)), incompressible(i, size))
		if i >= stays {
			e.WithTTL(ttl)
		}
		must(t, db.BatchSet([]*Entry{e}))
	}
	last := time.Now().Add(ttl)
	bytes := func() int64 {
		m := db.Metrics().Tree
		return m.RunBytes + m.SegmentBytes + m.RemapBytes + m.MemtableBytes
	}
	<-time.After(ttl - time.Minute)
	synctest.Wait()
	if before := bytes(); ttl > time.Minute && before < int64((n-stays)*size) {
		t.Errorf("%d bytes before they have expired", before)
	}
	<-time.After(time.Until(last) + max(time.Minute, ttl/20))
	synctest.Wait()
	// What stays, and what a file and a memtable take at least.
	if left := bytes(); left > 2*stays*int64(size+100)+200_000 {
		t.Errorf("%d bytes are left:\n%v", left, db.Metrics())
	}
	wantEqual(t, "expired bytes that wait", db.Metrics().Tree.ExpiredBytes, 0)
	if _, set := db.engine.(treeEngine).AwaitsExpiry(); set {
		t.Error("a timer is set, though nothing expires")
	}
	must(t, db.View(func(txn *Txn) error {
		count := 0
		for it, err := range txn.All() {
			must(t, err)
			must2(it.Value())
			count++
		}
		if count > stays || count < stays/2 {
			t.Errorf("%d items are left of %d", count, stays)
		}
		return nil
	}))
}
