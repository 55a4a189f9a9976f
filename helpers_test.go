package brock

import (
	"errors"
	"strings"
	"testing"
)

// openTest opens an empty store, in memory unless o.Dir says otherwise, that is
// closed with the test.
func openTest(t testing.TB, o Options) *DB {
	t.Helper()
	o.InMemory = o.Dir == ""
	db, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantErr checks that err is target.
func wantErr(t testing.TB, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: error %v, want %v", what, err, target)
	}
}

// b is a string as a key or value.
func b(s string) []byte { return []byte(s) }

// set commits pairs written "key=value", or "key" for a delete.
func set(t testing.TB, db *DB, pairs ...string) {
	t.Helper()
	must(t, db.Update(func(txn *Txn) error { return put(txn, pairs...) }))
}

func put(txn *Txn, pairs ...string) error {
	for _, p := range pairs {
		key, value, found := strings.Cut(p, "=")
		err := txn.Delete(b(key))
		if found {
			err = txn.Set(b(key), b(value))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func wantEqual[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
