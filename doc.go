// Package brock is an embedded, ordered, transactional key-value store in pure Go.
//
// Keys and small values live in a sorted tree, large values in segments, most of them
// in those of the journal. Every commit has a version. A transaction reads one
// version from its begin to its end, and never waits for writers. By default
// transactions are serializable, and a commit is durable when it returns.
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
// A Keyspace is a named set of keys with options of its own. One transaction may read
// and write any number of them:
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
// A []byte that the package returns is read-only, and valid
//
//   - from Txn.Get and GetMany (key and value) until the transaction ends;
//   - from an Iterator, and from the sequences of a Txn, until the transaction's end,
//     the key also no longer than until the next move;
//   - from DB.Get, KeyCopy and ValueCopy for ever: it belongs to the caller.
//
// A value from Item.Value or ValueFunc may lie in a mapped file. All of it can be read when
// it is returned. If the file is cut or its disk fails after that, a read of the slice ends
// the process. ValueCopy, KeyCopy and DB.Get return memory that no such fault can reach, and
// with Options.CopyValues all methods do. If the package itself meets such a fault, in its
// files or in a slice that it is given, the call returns an error that is ErrCorrupt.
//
// End each transaction: until then it keeps memory and files that are no longer needed
// otherwise. A transaction that is never ended, and that nobody can end any more, is found by
// the garbage collector. If it has handed out values or had iterators, its memory and files
// stay until the process ends, as slices may be in use; see Events.Leak.
//
// Slices that are passed in are copied before the call returns. The sequences of a Txn copy
// bounds and prefixes when a loop over them begins, and GetMany reads its keys while the loop
// goes on. Built with the tag brockdebug, the package overwrites what it has returned as soon
// as it is no longer valid, so that tests show its misuse.
//
// # Concurrency
//
// A DB, a Keyspace and a Writer may be used by any number of goroutines. A Txn, an
// Iterator, an Item and a Batch belong to one goroutine at a time; but each iterator
// of a read-only transaction may have a goroutine of its own.
//
// # Errors
//
// Test errors with errors.Is and errors.As. Misuse returns an error (ErrInvalid,
// ErrTxnDone, ErrClosed, ErrReadOnly): the package does not panic, and never ends the
// process. A panic in a function given to View or Update discards the transaction and
// goes on to the caller.
package brock
