package storetest

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/brockdb/brock"
)

// openTest opens an empty store, in memory unless o.Dir says otherwise, and
// closes it when the test ends.
func openTest(t testing.TB, o brock.Options) *brock.DB {
	t.Helper()
	o.InMemory = o.Dir == ""
	db, err := brock.Open(o)
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

// must2 is v, where an error can only be a fault of the test.
func must2[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
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
func set(t testing.TB, db *brock.DB, pairs ...string) {
	t.Helper()
	must(t, db.Update(func(txn *brock.Txn) error { return put(txn, pairs...) }))
}

func put(txn *brock.Txn, pairs ...string) error {
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

// get is the value of key, "-" if there is none, or the error.
func get(txn *brock.Txn, key string) string {
	it, err := txn.Get(b(key))
	if err == brock.ErrKeyNotFound {
		return "-"
	}
	if err != nil {
		return err.Error()
	}
	v, err := it.Value()
	if err != nil {
		return err.Error()
	}
	return string(v)
}

// show writes items as "key=value", "key!" for deletes.
func show(seq iter.Seq2[*brock.Item, error]) string {
	var out []string
	for it, err := range seq {
		if err != nil {
			out = append(out, err.Error())
			break
		}
		if it.Deleted() {
			out = append(out, string(it.Key())+"!")
			continue
		}
		v, err := it.Value()
		if err != nil {
			v = b(err.Error())
		}
		out = append(out, fmt.Sprintf("%s=%s", it.Key(), v))
	}
	return strings.Join(out, " ")
}

func wantEqual[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
