package api

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// wrongCalls call methods with arguments that mean nothing.
var wrongCalls = map[string]*everyCall{
	"zero":  {zero: true},
	"empty": {key: []byte{}, value: []byte{}, number: -1},
	"huge":  {key: make([]byte, 2<<20), value: make([]byte, 2<<20), number: math.MaxInt},
}

// No exported function or method panics or hangs because of what it is given, nor
// because of the receiver: a zero value, one that is in use, or one that has ended.
func TestWrongArgumentsUnderEveryCall(t *testing.T) {
	var db *brock.DB
	var items []*brock.Item
	open := func() {
		var err error
		db, err = brock.Open(brock.Options{InMemory: true})
		assert.OK(t, err)
		storetest.OpenKeyspace(t, db, "k")
		storetest.Set(t, db, "a=1", "b=2")
	}
	open()
	// of returns receivers of a type.
	of := func(r reflect.Type) (list []any, done func()) {
		if db.Set([]byte("a"), nil) != nil {
			open()
		}
		ks, err := db.Keyspace("k")
		assert.OK(t, err)
		assert.OK(t, ks.Set([]byte("a"), []byte("1")))
		read, update := db.NewTransaction(false).In(ks), db.NewTransaction(true).In(ks)
		ended := db.NewTransaction(true)
		ended.Discard()
		it := read.NewIterator(brock.IteratorOptions{})
		it.Rewind()
		fresh, closed := read.NewIterator(brock.IteratorOptions{}), read.NewIterator(brock.IteratorOptions{})
		closed.Rewind()
		closed.Close()
		item := assert.Must(read.Get([]byte("a")))
		items = append(items, item)
		w, l := ks.NewWriter(t.Context()), assert.Must(ks.NewLoader(t.Context(), brock.LoadOptions{Sorted: true}))
		snapshot := assert.Must(db.Snapshot())
		for _, x := range []any{snapshot, db, ks, read, update, ended, it, fresh, closed, item, it.Item(), fresh.Item(), closed.Item(), items[0],
			db.NewBatch(), w, l, brock.NewEntry(nil, nil), new(brock.Metrics), new(brock.Histogram), new(brock.Commit), new(brock.Change), new(brock.ChangeKind), new(brock.Position)} {
			if reflect.TypeOf(x) == r {
				list = append(list, x)
			}
		}
		return append(list, reflect.New(r.Elem()).Interface()), func() { snapshot.Close(); read.Discard(); update.Discard(); w.Close(); l.Abort() }
	}
	for kind, c := range wrongCalls {
		c.read = func(string, []byte) {}
		eachMethod(func(name string, r reflect.Type, m reflect.Method) {
			list, done := of(r)
			defer done()
			for i, receiver := range list {
				wrongCall(t, fmt.Sprintf("%s of receiver %d, %s arguments", name, i, kind), func() { c.call(t, reflect.ValueOf(receiver), m) })
			}
		})
	}
	assert.OK(t, db.Close())
}

// wrongCall makes a call that must neither panic nor hang.
func wrongCall(t *testing.T, name string, call func()) {
	t.Helper()
	defer deadline.Watch(t, name)()
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("%s: panic: %v", name, r)
		}
	}()
	call()
}

// The test above knows all types that have methods, and this one the functions.
func TestWrongArgumentsOfFunctions(t *testing.T) {
	dir := t.TempDir()
	functions := map[string]func(){
		"DefaultOptions": func() { brock.DefaultOptions("") },
		"Replace":        func() { assert.Error(t, "Replace of nothing", brock.Replace("", ""), brock.ErrInvalid) },
		"NewEntry":       func() { brock.NewEntry(nil, nil) },
		"Open": func() {
			if db, err := brock.Open(brock.Options{}); err == nil {
				t.Error("a store without a directory was opened")
				db.Close()
			}
		},
		"OpenContext": func() {
			db, err := brock.OpenContext(nil, brock.Options{Dir: dir}) //nolint:staticcheck
			assert.OK(t, db.Close())
			assert.Error(t, "OpenContext without a context", err, brock.ErrInvalid)
		},
		"EncryptStore": func() {
			assert.Error(t, "EncryptStore without a context", brock.EncryptStore(nil, brock.Options{Dir: dir}), brock.ErrInvalid) //nolint:staticcheck
			assert.Error(t, "EncryptStore of nothing", brock.EncryptStore(t.Context(), brock.Options{}), brock.ErrInvalid)
			assert.Error(t, "EncryptStore without a directory", brock.EncryptStore(t.Context(), brock.Options{Keys: brock.KeyFile("")}), brock.ErrInvalid)
		},
		"StaticKey": func() {
			_, err := brock.Open(brock.Options{Dir: filepath.Join(dir, "static"), Keys: brock.StaticKey(nil)})
			assert.Error(t, "Open with a key of no bytes", err, brock.ErrInvalid)
		},
		"KeyFile": func() {
			_, err := brock.Open(brock.Options{Dir: filepath.Join(dir, "file"), Keys: brock.KeyFile("")})
			assert.Error(t, "Open without a key file", err, brock.ErrKey)
		},
		"Restore": func() {
			_, err := brock.Restore(nil, nil, brock.Options{Dir: dir}) //nolint:staticcheck
			assert.Error(t, "Restore of nothing", err, brock.ErrInvalid)
			_, err = brock.Restore(t.Context(), nil, brock.Options{Dir: dir})
			assert.Error(t, "Restore without a reader", err, brock.ErrInvalid)
		},
		"Salvage": func() {
			_, err := brock.Salvage(nil, brock.Options{Dir: dir}, brock.Options{Dir: dir}, nil) //nolint:staticcheck
			assert.Error(t, "Salvage without a context", err, brock.ErrInvalid)
			_, err = brock.Salvage(t.Context(), brock.Options{}, brock.Options{}, nil)
			assert.Error(t, "Salvage of nothing", err, brock.ErrInvalid)
		},
		"Files": func() {
			_, err := brock.Files(new(brock.DB))
			assert.Error(t, "Files of a store that was never opened", err, brock.ErrClosed)
			_, err = brock.Files(nil)
			assert.Error(t, "Files of nothing", err, brock.ErrClosed)
		},
		"PrefixRange": func() { brock.PrefixRange(nil) },
		"ParsePosition": func() {
			_, err := brock.ParsePosition("")
			assert.Error(t, "ParsePosition of nothing", err, brock.ErrInvalid)
		},
		"VerifyBackup": func() {
			_, err := brock.VerifyBackup(nil, nil) //nolint:staticcheck
			assert.Error(t, "VerifyBackup of nothing", err, brock.ErrInvalid)
			_, err = brock.VerifyBackup(t.Context(), nil)
			assert.Error(t, "VerifyBackup without a reader", err, brock.ErrInvalid)
		},
	}
	for name, fn := range functions {
		wrongCall(t, name, fn)
	}
	api, err := os.ReadFile("../../../../api.txt")
	assert.OK(t, err)
	known := make(map[string]bool)
	for _, r := range receivers {
		known[r.Elem().Name()] = true
	}
	for line := range strings.Lines(string(api)) {
		if m := regexp.MustCompile(`^func \(\w+ \*?(\w+)\)`).FindStringSubmatch(line); m != nil && !known[m[1]] {
			t.Errorf("the methods of %s are not called: add it to receivers", m[1])
		}
		if m := regexp.MustCompile(`^func (\w+)\(`).FindStringSubmatch(line); m != nil && functions[m[1]] == nil {
			t.Errorf("the function %s is not called", m[1])
		}
	}
}

// What is missing is an error, at once.
func TestNilContextsAndFunctions(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	storetest.Set(t, db, "a=1")
	ks := storetest.OpenKeyspace(t, db, "k")
	var never context.Context
	nothing := func(*brock.Txn) error { return nil }
	_, begun := db.Begin(never, brock.TxnOptions{})
	_, reclaimed := db.Reclaim(never)
	batch := db.NewBatch()
	assert.OK(t, batch.Set([]byte("b"), nil))
	for name, err := range map[string]error{
		"Begin":                begun,
		"View":                 db.View(nil),
		"Update":               db.Update(nil),
		"Keyspace.View":        ks.View(nil),
		"Keyspace.Update":      ks.Update(nil),
		"ViewContext":          db.ViewContext(never, brock.TxnOptions{}, nothing),
		"UpdateContext":        db.UpdateContext(never, brock.TxnOptions{}, nothing),
		"ViewContext, nil":     db.ViewContext(t.Context(), brock.TxnOptions{}, nil),
		"UpdateContext, nil":   db.UpdateContext(t.Context(), brock.TxnOptions{}, nil),
		"Txn.CommitContext":    assert.Must(db.Begin(t.Context(), brock.TxnOptions{})).CommitContext(never),
		"Batch.Commit":         assert.ErrorOf(batch.Commit(never, 0)),
		"Compact":              db.Compact(never),
		"Flush":                db.Flush(never),
		"Sync":                 db.Sync(never),
		"Reclaim":              reclaimed,
		"Verify":               db.Verify(never, nil),
		"DropAll":              db.DropAll(never),
		"DropPrefix":           db.DropPrefix(never, nil),
		"Keyspace.Clear":       ks.Clear(never),
		"Keyspace.Drop":        ks.Drop(never),
		"Writer.Set":           db.NewWriter(never).Set([]byte("a"), nil),
		"Keyspace, Writer.Set": ks.NewWriter(never).Set([]byte("a"), nil),
		"SetEntry":             batch.SetEntry(nil),
		"BatchSet":             db.BatchSet([]*brock.Entry{nil}),
		"ValueFunc": db.View(func(txn *brock.Txn) error {
			return assert.Must(txn.Get([]byte("a"))).ValueFunc(nil)
		}),
	} {
		assert.Error(t, name, err, brock.ErrInvalid)
	}
	// All is as it was, and the batch was not spent.
	assert.Must(batch.Commit(t.Context(), 0))
	assert.Equal(t, "contents", storetest.ShowContents(t, db), "a=1 b=; k: ")
}

// However many parts Split is asked for, it makes no more than there are entries.
func TestSplitIntoVeryMany(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	for i := range 100 {
		storetest.Set(t, db, fmt.Sprintf("k%02d=", i))
	}
	for range 2 {
		for _, n := range []int{100, math.MaxInt, math.MaxInt} {
			if got := len(db.Split(nil, nil, n)); got == 0 || got > 100 {
				t.Errorf("Split into %d: %d keys", n, got)
			}
		}
		assert.OK(t, db.Flush(t.Context()))
	}
	for _, n := range []int{math.MinInt, -1, 0, 1} {
		assert.Equal(t, "keys", len(db.Split(nil, nil, n)), 0)
	}
}
