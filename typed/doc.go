// Package typed owns tables: records of one Go type in a keyspace, found by a key and by indexes.
//
//	users := typed.NewTable(ks, "users", typed.Uint64, typed.JSON[User]())
//	byMail := typed.NewUnique(users, "mail", typed.String, func(u *User) []string { return []string{u.Mail} })
//	byTown := typed.NewIndex(users, "town", typed.String, func(u *User) []string { return u.Towns })
//
//	err := db.Update(func(txn *brock.Txn) error { return users.Put(txn, 7, &User{...}) })
//	err = db.View(func(txn *brock.Txn) error {
//		for row, err := range byTown.Prefix(txn, "Ber") {
//			...
//		}
//		return nil
//	})
//
// There are no queries, struct tags or migrations, and no reflection but that of a record's codec.
//
// # Transactions
//
// All calls take a transaction of the store, of any keyspace, and add to what it reads and writes.
// Records and their entries in indexes are written together. A transaction may be Serializable or
// at SnapshotIsolation, but not with TxnOptions.ReadAt then: a Rebuild would miss what it writes. With
// LastWriterWins indexes get wrong. Calls on one value from two
// transactions conflict if they write the same record, or give the same value of a unique index to
// two records: there is one entry for each value and key, so inserts of one value into an Index
// do not meet.
//
// # Declaration
//
// The first write stores what the table is: names of its codecs, and its indexes. A Table that is
// declared otherwise gets a *DeclarationError from each call, until Table.Rebuild. What an index
// function computes is not seen: raise the version of an index when its function changes
// (Index.WithVersion), or the name of a codec of your own when its bytes do.
//
// # Bytes
//
// Keys are tuples as FoundationDB's tuple layer encodes them, so other languages can read them;
// docs/format.md has the bytes. All keys of a table begin with its name: nothing else may be written
// there. Tables of several names can share a keyspace, which must have no time to live.
package typed
