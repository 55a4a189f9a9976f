package browser_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/debug"
)

// openStore opens a store that is closed when the test ends.
func openStore(t *testing.T, o brock.Options) *brock.DB {
	t.Helper()
	if o.Dir == "" && !o.InMemory {
		o.Dir = t.TempDir()
	}
	db, err := brock.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shop is a store like that of a program, with a past and under load.
type shop struct {
	db  *brock.DB
	log *debug.Log
}

func openShop(t *testing.T, o brock.Options) *shop {
	t.Helper()
	s := &shop{log: debug.NewLog()}
	o.Events = s.log.Events(brock.Events{})
	o.Durability = brock.Buffered
	o.Tuning = brock.Tuning{SegmentSize: 2 << 20}
	o.Maintenance.GarbageRatio = 0.9 // garbage stays, so that it can be seen
	s.db = openStore(t, o)
	random := rand.New(rand.NewPCG(1, 2))
	fill := func(name string, n, size int, key func(i int) string, o brock.KeyspaceOptions) *brock.Keyspace {
		ks := s.db.Default()
		if name != "" {
			var err error
			ks, err = s.db.Keyspace(name, o)
			must(t, err)
		}
		w := ks.NewWriter(t.Context())
		for i := range n {
			value, err := json.Marshal(map[string]any{"id": i, "state": []string{"new", "paid", "sent"}[random.IntN(3)], "total": random.IntN(100000), "note": strings.Repeat("lorem ipsum ", random.IntN(size)/12)})
			must(t, err)
			must(t, w.Set([]byte(key(i)), value))
		}
		must(t, w.Close())
		return ks
	}
	cities := []string{"berlin", "lagos", "lima", "osaka", "porto", "quito"}
	fill("", 4000, 300, func(i int) string { return fmt.Sprintf("config/%s/%05d", cities[i%6], i) }, brock.KeyspaceOptions{})
	fill("orders", 20000, 500, func(i int) string {
		return fmt.Sprintf("%s/2026-%02d/%06d", cities[random.IntN(6)], 1+random.IntN(12), i)
	}, brock.KeyspaceOptions{})
	fill("sessions", 6000, 200, func(i int) string { return fmt.Sprintf("s:%08x", random.Uint32()) }, brock.KeyspaceOptions{TTL: time.Hour})
	fill("blobs", 60, 200000, func(i int) string { return fmt.Sprintf("image/%03d.png", i) }, brock.KeyspaceOptions{})
	users := fill("users", 3000, 200, func(i int) string { return fmt.Sprintf("user/%05d", i) }, brock.KeyspaceOptions{Versions: brock.Retention{Age: math.MaxInt64}})
	for v := range 4 {
		must(t, users.Set([]byte("user/00042"), fmt.Appendf(nil, `{"id": 42, "name": "Ada %d", "mail": "ada@example.com", "logins": %d, "limit": 9007199254740993}`, v, v*7)))
	}
	must(t, users.Set([]byte("user/00043"), []byte("\x08\x96\x01\x12\x07testing\x00\xff")))
	must(t, s.db.Flush(t.Context()))
	blobs, err := s.db.Keyspace("blobs")
	must(t, err)
	for i := range 12 { // garbage in files that stay
		must(t, blobs.Set(fmt.Appendf(nil, "image/%03d.png", i*5), make([]byte, 50000)))
	}
	must(t, s.db.Compact(t.Context()))
	return s
}

// load writes, reads and conflicts until the test ends.
func (s *shop) load(t *testing.T) {
	t.Helper()
	orders, err := s.db.Keyspace("orders")
	must(t, err)
	ctx, stop := context.Background(), make(chan struct{}) // that of t ends before its cleanup
	var done sync.WaitGroup
	work := func(pause time.Duration, fn func(i int) error) {
		done.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(pause): // a steady load, which leaves the processor to the browser
				}
				if err := fn(i); err != nil && !errors.Is(err, brock.ErrConflict) {
					t.Error(err)
					return
				}
			}
		})
	}
	work(4*time.Millisecond, func(i int) error {
		return orders.Set(fmt.Appendf(nil, "lima/2026-%02d/%06d", 1+i/150%12, i), []byte(strings.Repeat("paid ", 40+i%100)))
	})
	work(7*time.Millisecond, func(i int) error {
		txn, err := s.db.Begin(ctx, brock.TxnOptions{Update: true, Durability: brock.Synced})
		if err != nil {
			return err
		}
		defer txn.Discard()
		if err := txn.In(orders).Set(fmt.Appendf(nil, "osaka/2026-11/%06d", i*13%20000), []byte("new")); err != nil {
			return err
		}
		return txn.Commit()
	})
	for n := range 2 {
		work(9*time.Millisecond, func(i int) error {
			return s.log.NoteConflict(s.db.UpdateContext(ctx, brock.TxnOptions{Retries: -1}, func(txn *brock.Txn) error {
				if _, err := txn.Get([]byte("config/lima/00002")); err != nil {
					return err
				}
				return txn.Set([]byte("config/lima/00002"), fmt.Appendf(nil, `{"n": %d, "writer": %d}`, i, n))
			}))
		})
	}
	work(2*time.Millisecond, func(i int) error {
		return s.db.View(func(txn *brock.Txn) error {
			for j := range 300 {
				_, err := txn.Has(fmt.Appendf(nil, "config/%s/%05d", "lima", (i*300+j)%4000))
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	t.Cleanup(func() { close(stop); done.Wait() })
}
