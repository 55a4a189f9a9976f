package brock

import (
	"errors"
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

func wantEqual[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
