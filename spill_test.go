package brock

import (
	"fmt"
	"testing"
)

// A transaction whose writes are in files reads them as any other, and is one
// version of the store once it is committed.
func TestSpilledTransaction(t *testing.T) {
	db := openTest(t, Options{})
	set(t, db, "a=0", "k0001=old", "z=0")
	old := db.NewTransaction(false)
	defer old.Discard()
	txn, err := db.Begin(t.Context(), TxnOptions{Update: true, MaxMemory: 2000})
	must(t, err)
	defer txn.Discard()
	long := string(make([]byte, 1000))
	for i := range 200 {
		must(t, put(txn, fmt.Sprintf("k%04d=%d", i, i), fmt.Sprintf("v%04d=%d%s", i, i, long)))
	}
	must(t, put(txn, "k0007", "v0007=7", "k0008=eight", "a"))
	wantEqual(t, "a", get(txn, "a"), "-")
	wantEqual(t, "k0007", get(txn, "k0007"), "-")
	wantEqual(t, "k0008", get(txn, "k0008"), "eight")
	wantEqual(t, "v0007", get(txn, "v0007"), "7")
	wantEqual(t, "v0009", get(txn, "v0009"), "9"+long)
	wantEqual(t, "z", get(txn, "z"), "0")
	wantEqual(t, "own writes", show(txn.Range(b("k0006"), b("k0010"))), "k0006=6 k0008=eight k0009=9")
	must(t, txn.Commit())
	m := db.Metrics().Tree
	wantEqual(t, "spills", m.Spills, 1)
	wantEqual(t, "version", db.Version(), txn.CommitVersion())
	must(t, db.View(func(txn *Txn) error {
		wantEqual(t, "k0007", get(txn, "k0007"), "-")
		wantEqual(t, "v0007", get(txn, "v0007"), "7")
		wantEqual(t, "v0009", get(txn, "v0009"), "9"+long)
		wantEqual(t, "range", show(txn.Range(b("k0006"), b("k0010"))), "k0006=6 k0008=eight k0009=9")
		it, err := txn.Get(b("v0100"))
		must(t, err)
		wantEqual(t, "version", it.Version(), db.Version())
		return nil
	}))
	wantEqual(t, "old k0001", get(old, "k0001"), "old")
	wantEqual(t, "old k0002", get(old, "k0002"), "-")
	must(t, db.Verify(t.Context(), nil))
	set(t, db, "k0009=later")
	must(t, db.Compact(t.Context()))
	must(t, db.Verify(t.Context(), nil))
	must(t, db.View(func(txn *Txn) error {
		wantEqual(t, "range", show(txn.Range(b("k0006"), b("k0010"))), "k0006=6 k0008=eight k0009=later")
		wantEqual(t, "v0009", get(txn, "v0009"), "9"+long)
		return nil
	}))
}
