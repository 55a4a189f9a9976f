package store

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/vfs"
)

// TestSlowProvider: while a RotateKey waits for the provider of keys, whichever of its calls takes
// long, everything goes on that needs no answer: reads, writes to new files, and copies of the store.
// A second RotateKey waits no longer than its context.
func TestSlowProvider(t *testing.T) {
	for _, o := range []brock.RotateOptions{{}, {Master: true}, {Rewrite: true}} {
		nth := int64(1)
		for slowRotation(t, o, nth) {
			nth++
		}
		if nth == 1 {
			t.Errorf("%+v: the provider is not asked", o)
		}
	}
}

// slowRotation reports whether the provider was asked that often.
func slowRotation(t *testing.T, rotate brock.RotateOptions, nth int64) bool {
	mem := vfs.NewMem()
	var calls atomic.Int64
	asked, answer := make(chan bool), make(chan struct{})
	at := int64(1 << 40)
	calls.Store(at) // not before RotateKey
	provider := hanging{masterKey(1), func() {
		if calls.Add(1) == nth {
			asked <- true
			<-answer
		}
	}, make(chan struct{})}
	close(provider.free)
	options := keyedOptions(mem, "/store")
	options.Keys = provider
	db, err := brock.Open(options)
	must(t, err)
	defer func() { must(t, db.Close()) }()
	secrets(t, db, 1)

	calls.Store(0)
	rotated, others := make(chan error, 1), make(chan error, 1)
	go func() { rotated <- db.RotateKey(t.Context(), rotate) }()
	select {
	case <-asked:
	case err := <-rotated:
		must(t, err)
		return false
	}
	go func() { others <- goOn(t.Context(), db) }()
	if err := deadline.Receive(t, "calls that need no key end while the provider hangs", others); err != nil {
		t.Errorf("%+v, call %d of the provider: %v", rotate, nth, err)
	}
	close(answer)
	must(t, <-rotated)
	must(t, db.Verify(t.Context(), func(c *brock.CorruptionError) { t.Error(c) }))
	return true
}

// goOn does what needs no answer of a provider of keys.
func goOn(ctx context.Context, db *brock.DB) error {
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if err := db.RotateKey(short, brock.RotateOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		return errors.Join(errors.New("a second RotateKey has not waited"), err)
	}
	if err := errors.Join(db.Set(b("one"), b("1")), db.Sync(ctx), db.Flush(ctx), db.Set(b("two"), b("2")), db.Flush(ctx), db.Compact(ctx)); err != nil {
		return err
	}
	if got, err := db.Get(b("two")); err != nil || string(got) != "2" {
		return errors.Join(errors.New("read something else"), err)
	}
	if err := db.Checkpoint(ctx, "/copy"); err != nil {
		return err
	}
	_, err := db.Backup(ctx, io.Discard, brock.BackupOptions{})
	return err
}
