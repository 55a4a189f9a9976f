package brock

import "testing"

// openTest returns an empty store that is closed with the test.
func openTest(t testing.TB, o Options) *DB {
	t.Helper()
	db, _ := openFake(t, o)
	return db
}
