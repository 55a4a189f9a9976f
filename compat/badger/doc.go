// Package badger is the API of Badger v4 over Brock: a program changes the import path
// github.com/dgraph-io/badger/v4 to github.com/brockdb/brock/compat/badger, and keeps its code. The
// files are Brock's; data moves by Badger's own backup stream (DB.Backup and DB.Load).
//
// What differs in behaviour is a table in the README, with the test that shows each difference.
//
// # Lives of slices
//
// Set, SetEntry and Delete copy key and value. What an Item hands out is valid until its transaction
// ends, except the key of an iterator's item: that is valid until the iterator moves. Don't modify it.
//
// # Concurrency
//
// A DB may be used by any number of goroutines, and an update by one at a time. Several goroutines may
// call Get of a read-only transaction and read the values; each of its iterators may have its own.
//
// # Errors
//
// The Err variables are returned as they are, so both == and errors.Is find them. Errors that Badger
// has no name for, such as damage and a full disk, are Brock's: see the errors of package brock.
// An iterator that meets an error ends, logs it, and tells it by Iterator.Err; View, Update and Commit
// return it too, so that nothing is decided on a part of the data.
//
// Where Badger's API says that a call panics, it does here, with the same value: an API of managed
// mode in a store that is not managed, and the reverse; an iterator of a transaction that has ended;
// drops in a read-only store; a nil callback of CommitWith; a Prefix given to NewKeyIterator.
package badger
