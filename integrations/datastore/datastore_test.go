package brockds

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	ds "github.com/ipfs/go-datastore"
	dsq "github.com/ipfs/go-datastore/query"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
)

// TestValues: nil, empty and large values, and slices that the caller uses again.
func TestValues(t *testing.T) {
	d := open(t, brock.Options{Dir: t.TempDir()})
	x, err := d.NewTransaction(bg, false)
	assert.OK(t, err)
	defer x.Discard(bg)
	for n, value := range [][]byte{nil, {}, {0}, make([]byte, 3<<20)} {
		for _, w := range []interface {
			ds.Read
			ds.Write
		}{d, x} {
			key := ds.RawKey(fmt.Sprint("/", n))
			own := append([]byte(nil), value...)
			assert.OK(t, w.Put(bg, key, own))
			for i := range own {
				own[i] = 'x'
			}
			got, err := w.Get(bg, key)
			if err != nil || got == nil || string(got) != string(value) {
				t.Fatalf("value %d of %T: %d bytes, nil: %v, %v", n, w, len(got), got == nil, err)
			}
			for i := range got { // it is the caller's
				got[i] = 'y'
			}
			if again, err := w.Get(bg, key); err != nil || string(again) != string(value) {
				t.Fatalf("value %d of %T changed: %v", n, w, err)
			}
			if size, err := w.GetSize(bg, key); err != nil || size != len(value) {
				t.Errorf("size of %d in %T: %d, %v", n, w, size, err)
			}
		}
	}
	put(t, d, "", "root")
	assert.OK(t, d.Put(bg, ds.Key{}, []byte("zero key"))) // which NewKey never makes
	if got, err := d.Get(bg, ds.NewKey("/")); err != nil || string(got) != "root" {
		t.Errorf("root: %q, %v", got, err)
	}
	if err := d.Put(bg, ds.RawKey("/"+string(make([]byte, brock.MaxKeySize))), nil); !errors.Is(err, brock.ErrKeyTooLarge) {
		t.Errorf("a key that is too large: %v", err)
	}
}

// calls are all calls that take a key, of a Datastore or a transaction.
func calls(d any) map[string]func(ctx context.Context) error {
	key := ds.NewKey("/k")
	all := map[string]func(ctx context.Context) error{
		"Get":     func(ctx context.Context) error { _, err := d.(ds.Read).Get(ctx, key); return err },
		"Has":     func(ctx context.Context) error { _, err := d.(ds.Read).Has(ctx, key); return err },
		"GetSize": func(ctx context.Context) error { _, err := d.(ds.Read).GetSize(ctx, key); return err },
		"Put":     func(ctx context.Context) error { return d.(ds.Write).Put(ctx, key, nil) },
		"Delete":  func(ctx context.Context) error { return d.(ds.Write).Delete(ctx, key) },
		"Query": func(ctx context.Context) error {
			res, err := d.(ds.Read).Query(ctx, dsq.Query{})
			if err == nil {
				_, err = res.Rest()
			}
			return err
		},
		"PutWithTTL":    func(ctx context.Context) error { return d.(ds.TTL).PutWithTTL(ctx, key, nil, time.Hour) },
		"SetTTL":        func(ctx context.Context) error { return d.(ds.TTL).SetTTL(ctx, key, time.Hour) },
		"GetExpiration": func(ctx context.Context) error { _, err := d.(ds.TTL).GetExpiration(ctx, key); return err },
	}
	if d, ok := d.(*Datastore); ok {
		all["Sync"] = func(ctx context.Context) error { return d.Sync(ctx, key) }
		all["Batch"] = func(ctx context.Context) error { _, err := d.Batch(ctx); return err }
		all["NewTransaction"] = func(ctx context.Context) error {
			x, err := d.NewTransaction(ctx, true)
			if err == nil {
				x.Discard(ctx)
			}
			return err
		}
		all["DiskUsage"] = func(ctx context.Context) error { _, err := d.DiskUsage(ctx); return err }
		all["CollectGarbage"] = d.CollectGarbage
		all["Check"] = d.Check
		all["Scrub"] = d.Scrub
	}
	return all
}

// TestMisuse: every call after Close, and with a context that has ended, returns an error.
func TestMisuse(t *testing.T) {
	ended, cancel := context.WithCancel(bg)
	cancel()
	owned := open(t, brock.Options{})
	shared := New(owned.DB(), nil)
	for _, d := range []*Datastore{shared, owned} {
		put(t, d, "/k", "v")
		batch, err := d.Batch(bg)
		assert.OK(t, err)
		assert.OK(t, batch.Put(bg, ds.NewKey("/batch"), nil))
		x, err := d.NewTransaction(bg, false)
		assert.OK(t, err)
		assert.OK(t, x.Put(bg, ds.NewKey("/txn"), nil))
		late := map[string]func(ctx context.Context) error{
			"batch Put":    func(ctx context.Context) error { return batch.Put(ctx, ds.NewKey("/k"), nil) },
			"batch Delete": func(ctx context.Context) error { return batch.Delete(ctx, ds.NewKey("/k")) },
			"batch Commit": batch.Commit,
		}
		for name, call := range calls(d) {
			late[name] = call
			worksUntilThen(t, name, call)
		}
		for name, call := range calls(x) {
			late["txn "+name] = call
			worksUntilThen(t, "txn "+name, call)
		}
		for name, call := range late {
			if err := call(ended); !errors.Is(err, context.Canceled) {
				t.Errorf("%s with a context that has ended: %v", name, err)
			}
		}
		assert.OK(t, d.Close())
		for name, call := range late {
			if err := call(bg); !errors.Is(err, brock.ErrClosed) {
				t.Errorf("%s after Close: %v", name, err)
			}
		}
		if err := x.Commit(bg); !errors.Is(err, brock.ErrClosed) {
			t.Errorf("Commit after Close: %v", err)
		}
		x.Discard(bg)
	}
	if err := shared.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func worksUntilThen(t *testing.T, name string, call func(ctx context.Context) error) {
	t.Helper()
	if err := call(bg); err != nil && err != ds.ErrNotFound { // the key may be deleted before it is read
		t.Errorf("%s: %v", name, err)
	}
}

// TestCloseOfShared: the store of others stays open.
func TestCloseOfShared(t *testing.T) {
	d := open(t, brock.Options{})
	shared := New(d.DB(), nil)
	put(t, shared, "/k", "v")
	assert.OK(t, shared.Close())
	if got, err := d.Get(bg, ds.NewKey("/k")); err != nil || string(got) != "v" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestBatch: it is atomic, may be filled by many goroutines, and is committed once.
func TestBatch(t *testing.T) {
	d := open(t, brock.Options{})
	put(t, d, "/old", "1")
	batch, err := d.Batch(bg)
	assert.OK(t, err)
	var fillers sync.WaitGroup
	for n := range 8 {
		fillers.Go(func() {
			for i := range 100 {
				if err := batch.Put(bg, ds.RawKey(fmt.Sprintf("/%d/%d", n, i)), []byte("v")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	fillers.Wait()
	assert.OK(t, batch.Delete(bg, ds.NewKey("/old")))
	before := d.DB().Version()
	assert.OK(t, batch.Commit(bg))
	if n := d.DB().Version() - before; n != 1 {
		t.Errorf("%d commits", n)
	}
	if got := query(t, d, dsq.Query{KeysOnly: true}); len(got) != 800 {
		t.Errorf("%d keys", len(got))
	}
	for name, err := range map[string]error{
		"Commit": batch.Commit(bg), "Put": batch.Put(bg, ds.NewKey("/a"), nil), "Delete": batch.Delete(bg, ds.NewKey("/a")),
	} {
		if !errors.Is(err, brock.ErrInvalid) {
			t.Errorf("%s after Commit: %v", name, err)
		}
	}
	empty, err := d.Batch(bg)
	assert.OK(t, err)
	assert.OK(t, empty.Commit(bg))
}

// TestTransactions: they see one version and their own writes, and conflict over what they have read.
func TestTransactions(t *testing.T) {
	d := open(t, brock.Options{})
	put(t, d, "/a", "1", "/b/1", "1")
	begin := func(readOnly bool) ds.Txn {
		x, err := d.NewTransaction(bg, readOnly)
		assert.OK(t, err)
		return x
	}
	get := func(r ds.Read, key string) string {
		value, err := r.Get(bg, ds.NewKey(key))
		if errors.Is(err, ds.ErrNotFound) {
			return "none"
		}
		assert.OK(t, err)
		return string(value)
	}

	x, reader := begin(false), begin(true)
	put(t, x, "/a", "2", "/c", "3")
	assert.OK(t, x.Delete(bg, ds.NewKey("/b/1")))
	if get(x, "/a")+get(x, "/b/1")+get(x, "/c") != "2none3" || get(d, "/a")+get(d, "/b/1")+get(d, "/c") != "11none" {
		t.Error("own writes don't show, or show outside")
	}
	assert.OK(t, x.Commit(bg))
	if get(d, "/a")+get(d, "/b/1")+get(d, "/c") != "2none3" || get(reader, "/a")+get(reader, "/b/1") != "11" {
		t.Error("after the commit")
	}
	if err := reader.Put(bg, ds.NewKey("/a"), nil); !errors.Is(err, brock.ErrReadOnly) {
		t.Errorf("a write in a read-only transaction: %v", err)
	}
	assert.OK(t, reader.Commit(bg))
	x.Discard(bg)
	for name, call := range calls(x) {
		if err := call(bg); !errors.Is(err, brock.ErrTxnDone) {
			t.Errorf("%s after Commit: %v", name, err)
		}
	}
	if err := x.Commit(bg); !errors.Is(err, brock.ErrTxnDone) {
		t.Errorf("second Commit: %v", err)
	}

	for name, read := range map[string]func(x ds.Txn){
		"a key":        func(x ds.Txn) { get(x, "/a") },
		"an absent":    func(x ds.Txn) { get(x, "/b/2") },
		"a query":      func(x ds.Txn) { query(t, x, dsq.Query{Prefix: "/b"}) },
		"a sorted one": func(x ds.Txn) { query(t, x, dsq.Query{Prefix: "/b", Orders: []dsq.Order{dsq.OrderByValue{}}}) },
		"only writes":  nil,
	} {
		x := begin(false)
		if read != nil {
			read(x)
		}
		put(t, x, "/mine", name)
		put(t, d, "/a", name, "/b/2", name)
		if err := x.Commit(bg); read == nil && err != nil || read != nil && !errors.Is(err, brock.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
		assert.OK(t, d.Delete(bg, ds.NewKey("/b/2")))
	}
}

// TestTimeToLive looks at entries that expire, and at times to live that can't be.
func TestTimeToLive(t *testing.T) {
	var h hand
	d := open(t, h.options())
	key := ds.NewKey("/k")
	x, err := d.NewTransaction(bg, false)
	assert.OK(t, err)
	defer x.Discard(bg)
	for _, w := range []interface {
		ds.Read
		ds.Write
		ds.TTL
	}{d, x.(*txn)} {
		if err := w.SetTTL(bg, key, time.Hour); err != ds.ErrNotFound {
			t.Errorf("SetTTL of an absent key: %v", err)
		}
		if _, err := w.GetExpiration(bg, key); err != ds.ErrNotFound {
			t.Errorf("GetExpiration of an absent key: %v", err)
		}
		assert.OK(t, w.Put(bg, key, []byte("v")))
		if at, err := w.GetExpiration(bg, key); err != nil || !at.IsZero() {
			t.Errorf("expiration of an entry that stays: %v, %v", at, err)
		}
		for _, ttl := range []time.Duration{0, -time.Second} {
			if err := w.PutWithTTL(bg, key, nil, ttl); !errors.Is(err, brock.ErrInvalid) {
				t.Errorf("PutWithTTL of %v: %v", ttl, err)
			}
			if err := w.SetTTL(bg, key, ttl); !errors.Is(err, brock.ErrInvalid) {
				t.Errorf("SetTTL of %v: %v", ttl, err)
			}
		}
		assert.OK(t, w.SetTTL(bg, key, time.Nanosecond)) // rounded up
		if at, err := w.GetExpiration(bg, key); err != nil || !at.Equal(h.now.Add(time.Millisecond)) {
			t.Errorf("expiration %v, %v, now %v", at, err, h.now)
		}
		assert.OK(t, w.SetTTL(bg, key, 1<<62)) // some hundred years
		if got, err := w.Get(bg, key); err != nil || string(got) != "v" {
			t.Errorf("after SetTTL: %q, %v", got, err)
		}
		assert.OK(t, w.PutWithTTL(bg, key, []byte("short"), time.Second))
	}
	h.now = h.now.Add(time.Second)
	if _, err := d.Get(bg, key); err != ds.ErrNotFound {
		t.Errorf("Get of an expired entry: %v", err)
	}
	if found, err := d.Has(bg, key); err != nil || found {
		t.Errorf("Has of an expired entry: %v, %v", found, err)
	}
}

// TestConcurrent uses everything at once, for the race detector, and closes the Datastore meanwhile.
func TestConcurrent(t *testing.T) {
	d := open(t, brock.Options{})
	var users sync.WaitGroup
	until := make(chan struct{})
	for n := range 4 {
		users.Go(func() {
			for i := 0; ; i++ {
				if i == 200 && n == 0 {
					close(until)
				}
				if err := useAll(d, ds.RawKey(fmt.Sprintf("/%d", i%10))); err != nil {
					if !errors.Is(err, brock.ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	<-until
	assert.OK(t, d.Close())
	users.Wait()
}

func useAll(d *Datastore, key ds.Key) error {
	if err := d.Put(bg, key, []byte("v")); err != nil {
		return err
	}
	if _, err := d.Get(bg, key); err != nil && err != ds.ErrNotFound {
		return err
	}
	if err := d.SetTTL(bg, key, time.Hour); err != nil && err != ds.ErrNotFound && !errors.Is(err, brock.ErrConflict) {
		return err
	}
	x, err := d.NewTransaction(bg, false)
	if err != nil {
		return err
	}
	defer x.Discard(bg)
	var both sync.WaitGroup
	errs := make([]error, 2)
	for i := range errs { // a transaction that two goroutines use
		both.Go(func() {
			if errs[i] = x.Put(bg, key, []byte("w")); errs[i] != nil {
				return
			}
			var res dsq.Results
			if res, errs[i] = x.Query(bg, dsq.Query{Limit: 3}); errs[i] == nil {
				_, errs[i] = res.Rest()
			}
		})
	}
	both.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := x.Commit(bg); err != nil && !errors.Is(err, brock.ErrConflict) {
		return err
	}
	return d.Delete(bg, key)
}
