package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/brockdb/brock"
)

// TestRefusedMemoryStopsNothing: while the system gives the process no memory, calls that need some
// return ErrRefused and have changed nothing. Afterwards all goes on.
func TestRefusedMemoryStopsNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector needs much address space, and memtables are on the Go heap")
	}
	if !inChild(t) {
		return
	}
	refused := 0
	for name, call := range map[string]func(ctx context.Context, db *brock.DB) error{
		"flush":   func(ctx context.Context, db *brock.DB) error { return db.Flush(ctx) },
		"compact": func(ctx context.Context, db *brock.DB) error { return db.Compact(ctx) },
		"sets": func(_ context.Context, db *brock.DB) (err error) {
			value := make([]byte, 400)
			for n := 0; err == nil && n < 60_000; n++ {
				err = db.Set(fmt.Appendf(nil, "set%d", n), value)
			}
			return err
		},
		"a large batch": func(ctx context.Context, db *brock.DB) error {
			batch := db.NewBatch()
			value := make([]byte, 400)
			for n := range 10_000 {
				if err := batch.Set(fmt.Appendf(nil, "batch%d", n), value); err != nil {
					return err
				}
			}
			_, err := batch.Commit(ctx, brock.DefaultDurability)
			return err
		},
	} {
		dir := t.TempDir()
		db, err := brock.Open(brock.Options{Dir: dir, Durability: brock.Buffered})
		must(t, err)
		for _, round := range []string{"1", "2"} {
			for n := range 200 {
				must(t, db.Set(fmt.Appendf(nil, "key%d", n), []byte(strings.Repeat(round, 100))))
			}
			if round == "1" {
				must(t, db.Flush(t.Context()))
			}
		}
		err = withoutMemory(t, func() error { return call(t.Context(), db) })
		if errors.Is(err, brock.ErrRefused) {
			refused++
		} else if err != nil { // it may find memory that was freed before
			t.Errorf("%s without memory: %v, want ErrRefused", name, err)
		}
		must(t, db.Err())
		value := must2(db.Get([]byte("key7")))
		wantEqual(t, name+": value", string(value), strings.Repeat("2", 100))
		must(t, call(t.Context(), db))
		must(t, db.Flush(t.Context()))
		must(t, db.Verify(t.Context(), nil))
		must(t, db.Close())
	}
	if refused == 0 {
		t.Error("the system refused nothing")
	}
}

// withoutMemory runs fn while the process may have no more than 1 MiB of address space beyond what
// it has.
func withoutMemory(t *testing.T, fn func() error) error {
	// The Go heap, for want of which the process would end, gets room first.
	room := make([]byte, 64<<20)
	clear(room)
	runtime.GC()
	var kib uint64
	status := string(must2(os.ReadFile("/proc/self/status")))
	_, rest, _ := strings.Cut(status, "VmSize:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_AS, &limit))
	few := limit
	few.Cur = kib<<10 + 1<<20
	must(t, syscall.Setrlimit(syscall.RLIMIT_AS, &few))
	err := fn()
	must(t, syscall.Setrlimit(syscall.RLIMIT_AS, &limit))
	return err
}
