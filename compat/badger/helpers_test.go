package badger

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// quiet returns options for a store in dir that logs nothing.
func quiet(dir string) Options { return DefaultOptions(dir).WithLogger(nil) }

// openDB opens a store and closes it at the end of the test.
func openDB(t testing.TB, opt Options) *DB {
	t.Helper()
	db, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, db.Close()) })
	return db
}

// openManaged opens a managed store and closes it at the end of the test.
func openManaged(t testing.TB, opt Options) *DB {
	t.Helper()
	opt.managedTxns = true
	return openDB(t, opt)
}

func memory() Options { return quiet("").WithInMemory(true) }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantErr checks that err is want itself, as callers of Badger compare by ==.
func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if err != want {
		t.Fatalf("%s: error %v, want %v", what, err, want)
	}
}

func wantText(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("%s:\ngot  %s\nwant %s", what, got, want)
	}
}

// wantPanic checks that fn panics with want.
func wantPanic(t testing.TB, what string, want any, fn func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := recover(); fmt.Sprint(got) != fmt.Sprint(want) || got == nil {
			t.Fatalf("%s: panic %v, want %v", what, got, want)
		}
	}()
	fn()
}

// set writes pairs, given as "k=v k=v", in one transaction.
func set(t testing.TB, db *DB, pairs string) {
	t.Helper()
	check(t, db.Update(func(txn *Txn) error { return setIn(txn, pairs) }))
}

func setIn(txn *Txn, pairs string) error {
	for p := range strings.FieldsSeq(pairs) {
		k, v, _ := strings.Cut(p, "=")
		if err := txn.Set([]byte(k), []byte(v)); err != nil {
			return err
		}
	}
	return nil
}

// setAt writes pairs at a version of a managed store.
func setAt(t testing.TB, db *DB, ts uint64, pairs string) {
	t.Helper()
	txn := db.NewTransactionAt(ts, true)
	defer txn.Discard()
	check(t, setIn(txn, pairs))
	check(t, txn.CommitAt(ts, nil))
}

// get returns the value that the transaction sees, "-" for none.
func get(t testing.TB, txn *Txn, key string) string {
	t.Helper()
	item, err := txn.Get([]byte(key))
	if errors.Is(err, ErrKeyNotFound) {
		return "-"
	}
	check(t, err)
	return value(t, item)
}

func value(t testing.TB, item *Item) string {
	t.Helper()
	v, err := item.ValueCopy(nil)
	check(t, err)
	return string(v)
}

// walk returns what the iterator shows from key on, as "k=v k=v"; with versions as "k@2=v", "!" behind it
// if the item is deleted or has expired.
func walk(t testing.TB, it *Iterator, key string) string {
	t.Helper()
	var out []string
	for it.Seek([]byte(key)); it.Valid(); it.Next() {
		item := it.Item()
		s := string(item.KeyCopy(nil))
		if it.opt.AllVersions {
			s += fmt.Sprintf("@%d", item.Version())
		}
		s += "=" + value(t, item)
		if item.IsDeletedOrExpired() {
			s += "!"
		}
		out = append(out, s)
	}
	check(t, it.Err())
	return strings.Join(out, " ")
}

// scan returns what a new iterator shows.
func scan(t testing.TB, txn *Txn, opt IteratorOptions) string {
	t.Helper()
	it := txn.NewIterator(opt)
	defer it.Close()
	return walk(t, it, "")
}

// dump returns all pairs of the store.
func dump(t testing.TB, db *DB) (out string) {
	t.Helper()
	check(t, db.View(func(txn *Txn) error {
		out = scan(t, txn, DefaultIteratorOptions)
		return nil
	}))
	return out
}
