package brock

import "testing"

// A write beyond the limit of a transaction is refused, and the transaction
// goes on with what it has.
func TestTransactionLimit(t *testing.T) {
	db := openTest(t, Options{KeyspaceDefaults: KeyspaceOptions{ValueThreshold: -1}})
	must(t, db.Update(func(txn *Txn) error {
		must(t, txn.Set(b("first"), b("1")))
		txn.writes.memory = MaxTxnMemory - entryOverhead - 3
		wantErr(t, "too big", txn.Set(b("second"), nil), ErrTxnTooBig)
		must(t, txn.Set(b("3rd"), nil))
		return nil
	}))
	batch := db.NewBatch()
	must(t, batch.Set(b("4th"), nil))
	batch.memory = MaxTxnMemory
	wantErr(t, "too big", batch.Delete(b("5th")), ErrTxnTooBig)
	must(t, batch.Commit(t.Context()))
	must(t, db.View(func(txn *Txn) error {
		wantEqual(t, "store", show(txn.All()), "3rd= 4th= first=1")
		return nil
	}))
}

// Values of a megabyte are separated even where the threshold says never.
func TestHugeValuesAreAlwaysSeparated(t *testing.T) {
	db := openTest(t, Options{KeyspaceDefaults: KeyspaceOptions{ValueThreshold: -1}})
	must(t, db.Set(b("huge"), make([]byte, maxInline)))
	must(t, db.Set(b("big"), make([]byte, maxInline-1)))
	wantEqual(t, "huge", db.main.encoder.Load().separates(&write{value: make([]byte, maxInline)}), true)
	must(t, db.Compact(t.Context()))
	for key, size := range map[string]int{"huge": maxInline, "big": maxInline - 1} {
		v, err := db.Get(b(key))
		must(t, err)
		wantEqual(t, key, len(v), size)
	}
	must(t, db.Verify(t.Context(), nil))
}
