// Package objects keeps values of any size as streams, in a store of package brock.
//
//	files, err := objects.Open(db, "files", objects.Options{})
//	...
//	info, err := files.Upload(ctx, []byte("a/b"), body, objects.PutOptions{Type: "text/plain"}, nil)
//	err = db.View(func(txn *brock.Txn) error {
//		o, err := files.Open(txn, []byte("a/b"))
//		...
//		_, err = io.Copy(w, o)
//		return err
//	})
//
// An object is a head and parts of 1 MB. Put, Delete and all reads are calls of a transaction, so
// objects change together with everything else that it writes, or not at all, also across a crash.
// Memory stays bounded: a large transaction goes to files (TxnOptions.MaxMemory), and one part at a
// time is read. Each part is verified when it is read; the SHA-256 of the whole is in the head.
//
// Each object costs two entries at least: what always is small is better kept as a plain value.
//
// A Store has objects under keys of yours. Blobs has them under their digest, each content once,
// and counts references.
//
// # A reader can be read once
//
// DB.Update runs its function again after a conflict. A reader that a Put in the first run has read
// is at its end by then, and the second run would store an empty object. So open the reader in the
// function, set PutOptions.Size, or use Upload: it reads once, in a transaction that can't
// conflict, and then links what it has written in a second, short one.
//
// # Isolation
//
// Write in transactions that are Serializable or have SnapshotIsolation, never with LastWriterWins.
// There two writers of one key can leave parts that no head names, which Verify finds and Sweep
// removes; and a Release beside a Retain can remove a blob that has a reference.
//
// # Layout
//
// The objects of name are in two keyspaces. The keyspace "name" has the heads, under the object's
// key or the digest of the blob. Integers are little-endian:
//
//	bytes   field
//	0       1, the format of the head
//	1       1 = object, 2 = blob
//	2-17    id: 16 random bytes, of one Put
//	18-25   length of the content
//	26-29   bytes in a part; the last part has the rest
//	30-37   time of the Put, in Unix milliseconds
//	38-69   SHA-256 of the content
//	70-77   references to the blob; 0 for an object
//	78-79   length of the content type
//	80-     content type, and then meta to the end
//
// The keyspace "name.parts" has the content, and marks of uploads that are not linked yet:
//
//	key                                     value
//	"p", id, number from 0 (8, big-endian)  a part of the content, never empty
//	"s", id                                 1, the format; time in Unix milliseconds (8)
//
// Each id with parts belongs to exactly one head or to a mark. Nobody else may write to the two
// keyspaces. Their options may be changed (Keyspace.SetOptions), except for the TTL, which must be
// 0. To read old versions (TxnOptions.ReadAt), give both the same Retention.Age.
package objects
