package brockfiber

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/vfs"
)

var _ fiber.Storage = (*Storage)(nil)

// The interface of version 2, as its documentation has it.
var _ interface {
	Get(key string) ([]byte, error)
	Set(key string, val []byte, exp time.Duration) error
	Delete(key string) error
	Reset() error
	Close() error
} = (*Storage)(nil)

func open(t testing.TB, o brock.Options) *Storage {
	t.Helper()
	o.InMemory = o.Dir == ""
	s, err := Open(o)
	assert.OK(t, err)
	t.Cleanup(func() { assert.OK(t, s.Close()) })
	return s
}

func want(t *testing.T, s *Storage, key, value string) {
	t.Helper()
	got, err := s.Get(key)
	if err != nil || string(got) != value || (got == nil) != (value == "") {
		t.Errorf("%q has %q (nil: %v), %v; want %q", key, got, got == nil, err, value)
	}
}

// TestBehaviour is what Fiber's interface says of each method.
func TestBehaviour(t *testing.T) {
	ctx := context.Background()
	for name, s := range map[string]*Storage{
		"memory": open(t, brock.Options{}),
		"files":  open(t, brock.Options{Dir: t.TempDir(), Durability: brock.Synced}),
	} {
		t.Run(name, func(t *testing.T) {
			want(t, s, "john", "")
			assert.OK(t, s.Set("john", []byte("doe"), 0))
			want(t, s, "john", "doe")
			assert.OK(t, s.SetWithContext(ctx, "john", []byte("smith"), time.Hour))
			want(t, s, "john", "smith")
			for _, value := range [][]byte{nil, {}} { // ignored
				assert.OK(t, s.Set("john", value, 0))
				want(t, s, "john", "smith")
			}
			assert.OK(t, s.Set("", []byte("nobody"), 0))
			want(t, s, "", "")
			assert.OK(t, s.Delete(""))
			assert.OK(t, s.Delete("john"))
			want(t, s, "john", "")
			assert.OK(t, s.DeleteWithContext(ctx, "john"))
			for i := range 1000 {
				assert.OK(t, s.Set(fmt.Sprint(i), []byte("v"), time.Duration(i)*time.Hour))
			}
			assert.OK(t, s.Reset())
			want(t, s, "7", "")
			assert.OK(t, s.ResetWithContext(ctx)) // of nothing
			assert.OK(t, s.Set("7", []byte("again"), 0))
			want(t, s, "7", "again")
		})
	}
}

// TestExpiration moves the clock over the end of entries.
func TestExpiration(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	s := open(t, brock.Options{Now: func() time.Time { return now }})
	assert.OK(t, s.Set("ever", []byte("v"), 0))
	assert.OK(t, s.Set("minute", []byte("v"), time.Minute))
	assert.OK(t, s.Set("blink", []byte("v"), time.Nanosecond)) // rounded up
	assert.OK(t, s.Set("past", []byte("v"), 0))
	assert.OK(t, s.Set("past", []byte("w"), -time.Second))
	want(t, s, "blink", "v")
	want(t, s, "past", "")
	now = now.Add(time.Millisecond)
	want(t, s, "blink", "")
	now = now.Add(time.Minute - 2*time.Millisecond)
	want(t, s, "minute", "v")
	assert.OK(t, s.Set("minute", []byte("longer"), time.Minute)) // counts from now on
	now = now.Add(time.Minute - time.Millisecond)
	want(t, s, "minute", "longer")
	now = now.Add(time.Millisecond)
	want(t, s, "minute", "")
	now = now.Add(100 * 365 * 24 * time.Hour)
	want(t, s, "ever", "v")
}

// TestBytes: the caller may use again what it passes in, and write to what it gets.
func TestBytes(t *testing.T) {
	s := open(t, brock.Options{Dir: t.TempDir()})
	for _, n := range []int{1, 511, 512, 1 << 20} {
		value := bytes.Repeat([]byte{'v'}, n)
		assert.OK(t, s.Set("k", value, 0))
		clear(value)
		for range 2 {
			got, err := s.Get("k")
			if err != nil || !bytes.Equal(got, bytes.Repeat([]byte{'v'}, n)) {
				t.Fatalf("%d bytes: %v", n, err)
			}
			clear(got)
		}
	}
	if err := s.Set(string(make([]byte, brock.MaxKeySize+1)), []byte("v"), 0); !errors.Is(err, brock.ErrKeyTooLarge) {
		t.Errorf("a key that is too large: %v", err)
	}
}

// TestMisuse: every call after Close, and with a context that has ended, returns an error.
func TestMisuse(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	owned := open(t, brock.Options{})
	shared := New(owned.Conn(), nil)
	for _, s := range []*Storage{shared, owned} {
		calls := map[string]func(ctx context.Context) error{
			"Get":    func(ctx context.Context) error { return assert.ErrorOf(s.GetWithContext(ctx, "k")) },
			"Set":    func(ctx context.Context) error { return s.SetWithContext(ctx, "k", []byte("v"), 0) },
			"SetExp": func(ctx context.Context) error { return s.SetWithContext(ctx, "k", []byte("v"), time.Hour) },
			"Delete": func(ctx context.Context) error { return s.DeleteWithContext(ctx, "k") },
			"Reset":  s.ResetWithContext,
		}
		for name, call := range calls {
			assert.OK(t, call(context.Background()))
			if err := call(ended); !errors.Is(err, context.Canceled) {
				t.Errorf("%s with a context that has ended: %v", name, err)
			}
		}
		for range 2 {
			assert.OK(t, s.Close())
		}
		for name, call := range calls {
			if err := call(context.Background()); !errors.Is(err, brock.ErrClosed) {
				t.Errorf("%s after Close: %v", name, err)
			}
		}
	}
}

// TestKeyspaces: a Storage of a shared store has its own keys, and leaves the store open.
func TestKeyspaces(t *testing.T) {
	db := open(t, brock.Options{}).Conn()
	keyspace := func(name string) *Storage {
		keys, err := db.Keyspace(name)
		assert.OK(t, err)
		return New(db, keys)
	}
	sessions, limits := keyspace("sessions"), keyspace("limits")
	assert.OK(t, sessions.Set("k", []byte("session"), 0))
	assert.OK(t, limits.Set("k", []byte("limit"), 0))
	assert.OK(t, limits.Reset())
	want(t, limits, "k", "")
	want(t, sessions, "k", "session")
	assert.OK(t, limits.Close())
	want(t, sessions, "k", "session")
}

// TestRestart: what was set is there after Close and Open, and after a crash of the process.
func TestRestart(t *testing.T) {
	disk := vfs.NewMem()
	s, err := Open(brock.Options{Dir: "d", FS: disk})
	assert.OK(t, err)
	assert.OK(t, s.Set("k", []byte("v"), time.Hour))
	crashed := open(t, brock.Options{Dir: "d", FS: disk.CrashClone(vfs.CrashOptions{Mode: vfs.All})})
	want(t, crashed, "k", "v")
	assert.OK(t, s.Close())
	want(t, open(t, brock.Options{Dir: "d", FS: disk}), "k", "v")
}

// TestFullDisk: a Set is refused and harms nothing; reads and deletes go on.
func TestFullDisk(t *testing.T) {
	disk := vfs.NewMem()
	disk.SetCapacity(8 << 20)
	s := open(t, brock.Options{Dir: "d", FS: disk, MemoryLimit: 4 << 20, Tuning: brock.Tuning{SegmentSize: 1 << 20}})
	assert.OK(t, s.Set("first", []byte("v"), 0))
	var err error
	for i := 0; err == nil; i++ {
		err = s.Set(fmt.Sprint(i), make([]byte, 64<<10), time.Hour)
	}
	if !errors.Is(err, brock.ErrNoSpace) {
		t.Fatal(err)
	}
	want(t, s, "first", "v")
	assert.OK(t, s.Reset())
	want(t, s, "first", "")
}

// TestConcurrent uses everything at once, for the race detector, and closes the Storage meanwhile.
func TestConcurrent(t *testing.T) {
	s := open(t, brock.Options{})
	var users sync.WaitGroup
	many := make(chan struct{})
	for n := range 4 {
		users.Go(func() {
			for i := 0; ; i++ {
				if n == 0 && i == 500 {
					close(many)
				}
				key := fmt.Sprint(i % 7)
				_, err := s.Get(key)
				err = errors.Join(err, s.Set(key, []byte("v"), time.Duration(i%2)*time.Hour), s.Delete(key), s.Reset())
				if errors.Is(err, brock.ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	<-many
	assert.OK(t, s.Close())
	users.Wait()
}
