package failure

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
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/process"
)

// TestRefusedMemoryStopsNothing: while the system gives the process no memory, calls that need some
// return ErrRefused and have changed nothing. Afterwards all goes on.
func TestRefusedMemoryStopsNothing(t *testing.T) {
	if process.RaceEnabled {
		t.Skip("the race detector needs much address space, and memtables are on the Go heap")
	}
	if !process.RunInChild(t) {
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
		assert.OK(t, err)
		for _, round := range []string{"1", "2"} {
			for n := range 200 {
				assert.OK(t, db.Set(fmt.Appendf(nil, "key%d", n), []byte(strings.Repeat(round, 100))))
			}
			if round == "1" {
				assert.OK(t, db.Flush(t.Context()))
			}
		}
		err = withoutMemory(t, func() error { return call(t.Context(), db) })
		if errors.Is(err, brock.ErrRefused) {
			refused++
		} else if err != nil { // it may find memory that was freed before
			t.Errorf("%s without memory: %v, want ErrRefused", name, err)
		}
		assert.OK(t, db.Err())
		value := assert.Must(db.Get([]byte("key7")))
		assert.Equal(t, name+": value", string(value), strings.Repeat("2", 100))
		assert.OK(t, call(t.Context(), db))
		assert.OK(t, db.Flush(t.Context()))
		assert.OK(t, db.Verify(t.Context(), nil))
		assert.OK(t, db.Close())
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
	status := string(assert.Must(os.ReadFile("/proc/self/status")))
	_, rest, _ := strings.Cut(status, "VmSize:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	assert.OK(t, syscall.Getrlimit(syscall.RLIMIT_AS, &limit))
	few := limit
	few.Cur = kib<<10 + 1<<20
	assert.OK(t, syscall.Setrlimit(syscall.RLIMIT_AS, &few))
	err := fn()
	assert.OK(t, syscall.Setrlimit(syscall.RLIMIT_AS, &limit))
	return err
}
