package storetest

import (
	"errors"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
)

// TxnCalls are the calls of a transaction.
var TxnCalls = map[string]func(txn *brock.Txn) error{
	"Get":      func(txn *brock.Txn) error { _, err := txn.Get([]byte("a")); return err },
	"Has":      func(txn *brock.Txn) error { _, err := txn.Has([]byte("a")); return err },
	"First":    func(txn *brock.Txn) error { _, err := txn.First(nil, nil); return err },
	"Last":     func(txn *brock.Txn) error { _, err := txn.Last([]byte("a"), nil); return err },
	"Set":      func(txn *brock.Txn) error { return txn.Set([]byte("a"), []byte("1")) },
	"SetEntry": func(txn *brock.Txn) error { return txn.SetEntry(brock.NewEntry([]byte("a"), nil)) },
	"Delete":   func(txn *brock.Txn) error { return txn.Delete([]byte("a")) },
	"Commit":   func(txn *brock.Txn) error { return txn.Commit() },
	"GetMany": func(txn *brock.Txn) error {
		for _, err := range txn.GetMany([][]byte{[]byte("a"), []byte("b")}) {
			return err
		}
		return nil
	},
	"All":      func(txn *brock.Txn) error { return assert.LastError(txn.All()) },
	"Versions": func(txn *brock.Txn) error { return assert.LastError(txn.Versions([]byte("a"))) },
	"NewIterator": func(txn *brock.Txn) error {
		it := txn.NewIterator(brock.IteratorOptions{})
		it.Rewind()
		it.Next()
		it.Prev()
		it.Seek([]byte("a"))
		if it.Valid() || it.ValidForPrefix(nil) || it.Item().Key() != nil {
			return errors.New("valid")
		}
		return it.Close()
	},
}
