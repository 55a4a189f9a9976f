// Package brock is an embedded, ordered, transactional key-value store in pure Go.
//
// Keys live in a small sorted tree, large values in the journal's own segments.
// Every commit has a version, and a transaction reads one version from its begin
// to its end, without ever waiting for writers. Transactions are serializable,
// and a commit is durable when it returns, unless their options say less.
//
//	db, err := brock.Open(brock.DefaultOptions("/tmp/db"))
//	...
//	defer db.Close()
//	err = db.Update(func(txn *brock.Txn) error {
//		return txn.Set([]byte("answer"), []byte("42"))
//	})
//	err = db.View(func(txn *brock.Txn) error {
//		for item, err := range txn.Prefix([]byte("ans")) {
//			...
//		}
//		return nil
//	})
//
// # Keyspaces
//
// A Keyspace is a part of the store with keys and options of its own. One
// transaction reads and writes any number of them:
//
//	users, err := db.Keyspace("users")
//	...
//	err = db.Update(func(txn *brock.Txn) error {
//		if err := txn.In(users).Set(id, profile); err != nil {
//			return err
//		}
//		return txn.Set([]byte("last user"), id) // in the default keyspace
//	})
//
// # Lifetimes
//
// A []byte that is handed out is read-only, and valid
//
//   - from Txn.Get and GetMany (key and value) until the transaction ends;
//   - from an Iterator, and from the sequences of a Txn, until its next move
//     (the key) or the transaction's end (the value);
//   - from DB.Get, KeyCopy and ValueCopy for ever: it is the caller's.
//
// Slices that are handed in are copied before the call returns. Built with the
// tag brockdebug, the package overwrites what it handed out as soon as its life
// is over, so that a use after it shows in tests.
//
// # Concurrency
//
// A DB, a Keyspace and a Writer may be used by any number of goroutines at once. A Txn, an
// Iterator, an Item and a Batch belong to one goroutine at a time; but each of
// the iterators of a read-only transaction may be on a goroutine of its own.
//
// # Errors
//
// Test errors with errors.Is and errors.As. Wrong use returns an error as well
// (ErrInvalid, ErrTxnDone, ErrClosed, ErrReadOnly): the package does not panic
// for it, and never ends the process. A panic in a function given to View or
// Update discards the transaction and goes on to the caller.
package brock
