package encryption

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestSlowProvider: while a RotateKey waits for the provider of keys, whichever of its calls takes
// long, everything goes on that needs no answer: reads, writes to new files, and copies of the store.
// A second RotateKey waits no longer than its context.
func TestSlowProvider(t *testing.T) {
	t.Parallel()
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
	provider := hanging{storetest.MasterKey(1), func() {
		if calls.Add(1) == nth {
			asked <- true
			<-answer
		}
	}, make(chan struct{})}
	close(provider.free)
	options := storetest.KeyedOptions(mem, "/store")
	options.Keys = provider
	db, err := brock.Open(options)
	assert.OK(t, err)
	defer func() { assert.OK(t, db.Close()) }()
	secrets(t, db, 1)

	calls.Store(0)
	rotated, others := make(chan error, 1), make(chan error, 1)
	go func() { rotated <- db.RotateKey(t.Context(), rotate) }()
	select {
	case <-asked:
	case err := <-rotated:
		assert.OK(t, err)
		return false
	}
	go func() { others <- goOn(t.Context(), db) }()
	if err := deadline.Receive(t, "calls that need no key end while the provider hangs", others); err != nil {
		t.Errorf("%+v, call %d of the provider: %v", rotate, nth, err)
	}
	close(answer)
	assert.OK(t, <-rotated)
	assert.OK(t, db.Verify(t.Context(), func(c *brock.CorruptionError) { t.Error(c) }))
	return true
}

// goOn does what needs no answer of a provider of keys.
func goOn(ctx context.Context, db *brock.DB) error {
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if err := db.RotateKey(short, brock.RotateOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		return errors.Join(errors.New("a second RotateKey has not waited"), err)
	}
	if err := errors.Join(db.Set([]byte("one"), []byte("1")), db.Sync(ctx), db.Flush(ctx), db.Set([]byte("two"), []byte("2")), db.Flush(ctx), db.Compact(ctx)); err != nil {
		return err
	}
	if got, err := db.Get([]byte("two")); err != nil || string(got) != "2" {
		return errors.Join(errors.New("read something else"), err)
	}
	if err := db.Checkpoint(ctx, "/copy"); err != nil {
		return err
	}
	_, err := db.Backup(ctx, io.Discard, brock.BackupOptions{})
	return err
}

// TestProviderPanics: the panic goes on to the caller of Open, and the store is free after it.
func TestProviderPanics(t *testing.T) {
	t.Parallel()
	o := storetest.KeyedOptions(vfs.OS(), t.TempDir())
	for _, when := range []string{"creating", "opening"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error(when, "the panic was lost")
				}
			}()
			bad := o
			bad.Keys = panicky{o.Keys}
			_, _ = brock.Open(bad)
		}()
		db, err := brock.Open(o)
		assert.OK(t, err)
		assert.OK(t, db.Close())
	}
}

// hanging is a provider that doesn't answer before free is closed, whatever its context says.
type hanging struct {
	brock.KeyProvider
	asked func()
	free  chan struct{}
}

func (h hanging) WrapKey(ctx context.Context, key, binding []byte) ([]byte, error) {
	h.asked()
	<-h.free
	return h.KeyProvider.WrapKey(ctx, key, binding)
}

func (h hanging) UnwrapKey(ctx context.Context, wrapped, binding []byte) ([]byte, error) {
	h.asked()
	<-h.free
	return h.KeyProvider.UnwrapKey(ctx, wrapped, binding)
}

// TestProviderHangs: each call that asks for keys returns when its context ends. Then the store is
// free, what was to be made is not there, and an answer that comes later changes nothing.
func TestProviderHangs(t *testing.T) {
	t.Parallel()
	p := storetest.Place{FS: vfs.OS(), Dir: t.TempDir(), Rename: os.Rename}
	db, err := brock.Open(p.KeyedOptions("store", ""))
	assert.OK(t, err)
	secrets(t, db, 1)
	stream, _ := storetest.MakeBackup(t, db, brock.BackupOptions{})
	want := storetest.ShowContents(t, db)
	assert.OK(t, db.Close())
	plain := p.KeyedOptions("plain", "")
	plain.Keys = nil
	db, err = brock.Open(plain)
	assert.OK(t, err)
	assert.OK(t, db.Close())
	open := func(ctx context.Context, o brock.Options) error {
		db, err := brock.OpenContext(ctx, o)
		if err == nil {
			return errors.Join(errors.New("opened"), db.Close())
		}
		return err
	}
	free := make(chan struct{})
	for name, call := range map[string]func(ctx context.Context, keys brock.KeyProvider) error{
		"create": func(ctx context.Context, keys brock.KeyProvider) error {
			o := p.KeyedOptions("new", "")
			o.Keys = keys
			return open(ctx, o)
		},
		"open": func(ctx context.Context, keys brock.KeyProvider) error {
			o := p.KeyedOptions("store", "")
			o.Keys = keys
			return open(ctx, o)
		},
		"EncryptStore": func(ctx context.Context, keys brock.KeyProvider) error {
			o := plain
			o.Keys = keys
			return brock.EncryptStore(ctx, o)
		},
		"RotateKey": func(ctx context.Context, keys brock.KeyProvider) error {
			db, err := brock.Open(p.KeyedOptions("store", ""))
			assert.OK(t, err)
			return errors.Join(db.RotateKey(ctx, brock.RotateOptions{Keys: keys}), db.Close())
		},
		"Restore": func(ctx context.Context, keys brock.KeyProvider) error {
			o := p.KeyedOptions("restored", "")
			o.Keys = keys
			_, err := brock.Restore(ctx, bytes.NewReader(stream), o)
			return err
		},
		"Salvage": func(ctx context.Context, keys brock.KeyProvider) error {
			o := p.KeyedOptions("store", "")
			o.Keys = keys
			_, err := brock.Salvage(ctx, o, p.KeyedOptions("salvaged", ""), nil)
			return err
		},
		"Salvage to": func(ctx context.Context, keys brock.KeyProvider) error {
			o := p.KeyedOptions("salvaged", "")
			o.Keys = keys
			_, err := brock.Salvage(ctx, p.KeyedOptions("store", ""), o, nil)
			return err
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		err := call(ctx, hanging{storetest.MasterKey(1), cancel, free})
		assert.Error(t, name, err, context.Canceled)
		if errors.Is(err, brock.ErrKey) {
			t.Errorf("%s: %v, as if the key were wrong", name, err)
		}
		cancel()
	}
	check := func(when string) {
		t.Helper()
		db, err := brock.Open(p.KeyedOptions("store", ""))
		assert.OK(t, err)
		if got := storetest.ShowContents(t, db); got != want {
			t.Errorf("%s: %.300q", when, got)
		}
		assert.OK(t, db.Close())
		db, err = brock.Open(plain)
		assert.OK(t, err)
		assert.OK(t, db.Close())
		for _, dir := range []string{"restored", "salvaged"} {
			if _, err := p.FS.Stat(p.Join(dir)); err == nil {
				t.Errorf("%s: %s is there", when, dir)
			}
		}
	}
	check("while providers hang")
	close(free)
	check("after their answers")
	db, err = brock.Open(p.KeyedOptions("new", ""))
	assert.OK(t, err)
	assert.OK(t, db.Close())
}

// TestRefreshWhileAProviderHangs: Refresh of a follower returns when its context ends, and the next
// one succeeds.
func TestRefreshWhileAProviderHangs(t *testing.T) {
	t.Parallel()
	p := storetest.Place{FS: vfs.OS(), Dir: t.TempDir(), Rename: os.Rename}
	db, err := brock.Open(p.KeyedOptions("store", ""))
	assert.OK(t, err)
	defer func() { assert.OK(t, db.Close()) }()
	ctx, cancel := context.WithCancel(t.Context())
	free, gate := make(chan struct{}), make(chan struct{})
	close(free)
	var hangs atomic.Bool
	asked := func() {
		if hangs.Load() {
			cancel()
			<-gate
		}
	}
	o := p.KeyedOptions("store", "")
	o.Mode, o.Keys = brock.Follow, hanging{storetest.MasterKey(1), asked, free}
	follower, err := brock.Open(o)
	if errors.Is(err, brock.ErrUnsupported) {
		t.Skip(err)
	}
	assert.OK(t, err)
	defer func() { assert.OK(t, follower.Close()) }()
	hangs.Store(true)
	assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{}))
	assert.OK(t, db.Set([]byte("new"), []byte("1")))
	assert.OK(t, db.Sync(t.Context()))
	_, err = follower.Refresh(ctx)
	assert.Error(t, "Refresh", err, context.Canceled)
	close(gate)
	assert.Must(follower.Refresh(t.Context()))
	if got, err := follower.Get([]byte("new")); err != nil || string(got) != "1" {
		t.Errorf("read %q, %v", got, err)
	}
}

// TestVerifyWhileAProviderHangs: Verify of a follower asks for keys that the writer has added. It
// returns when its context ends, and when the follower is closed.
func TestVerifyWhileAProviderHangs(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(cancel func(), follower *brock.DB){
		"context": func(cancel func(), _ *brock.DB) { cancel() },
		"close":   func(_ func(), follower *brock.DB) { go follower.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			p := storetest.Place{FS: vfs.OS(), Dir: t.TempDir(), Rename: os.Rename}
			db, err := brock.Open(p.KeyedOptions("store", ""))
			assert.OK(t, err)
			defer func() { assert.OK(t, db.Close()) }()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			free, gate := make(chan struct{}), make(chan struct{})
			close(free)
			var hangs atomic.Bool
			var follower *brock.DB
			asked := func() {
				if hangs.Load() {
					end(cancel, follower)
					<-gate
				}
			}
			o := p.KeyedOptions("store", "")
			o.Mode, o.Keys = brock.Follow, hanging{storetest.MasterKey(1), asked, free}
			follower, err = brock.Open(o)
			if errors.Is(err, brock.ErrUnsupported) {
				t.Skip(err)
			}
			assert.OK(t, err)
			defer func() { assert.OK(t, follower.Close()) }()
			hangs.Store(true)
			assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{}))
			verified := make(chan error, 1)
			go func() { verified <- follower.Verify(ctx, nil) }()
			err = deadline.Receive(t, "Verify ends while the provider hangs", verified)
			close(gate)
			if name == "close" {
				assert.Error(t, "Verify", err, brock.ErrClosed)
				return
			}
			assert.Error(t, "Verify", err, context.Canceled)
			hangs.Store(false)
			assert.OK(t, follower.Verify(t.Context(), nil))
		})
	}
}

// TestOptionsBesideClose: Options has the provider of keys at any time, also while Close makes the
// store forget it.
func TestOptionsBesideClose(t *testing.T) {
	t.Parallel()
	keys := brock.StaticKey(make([]byte, 32))
	for range 100 {
		db, err := brock.Open(brock.Options{InMemory: true, Keys: keys})
		assert.OK(t, err)
		closed := make(chan error, 1)
		go func() { closed <- db.Close() }()
		for open := true; open; {
			select {
			case err := <-closed:
				assert.OK(t, err)
				open = false
			default:
			}
			if got := db.Options().Keys; got != keys {
				t.Fatalf("the keys of Options are %T, want %T", got, keys)
			}
		}
	}
}
