package brock

import "testing"

func TestSmoke(t *testing.T) {
	db := openTest(t, Options{})
	must(t, db.Update(func(txn *Txn) error { return txn.Set([]byte("a"), []byte("1")) }))
	must(t, db.View(func(txn *Txn) error {
		it, err := txn.Get([]byte("a"))
		must(t, err)
		v, err := it.Value()
		must(t, err)
		if string(v) != "1" {
			t.Errorf("%q", v)
		}
		for it, err := range txn.All() {
			must(t, err)
			t.Logf("%q %d", it.Key(), it.Version())
		}
		return nil
	}))
	t.Log(db.Metrics())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
