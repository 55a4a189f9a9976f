package brock

import "testing"

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
