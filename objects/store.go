package objects

import (
	"bytes"
	"context"
	"io"
	"iter"

	"github.com/brockdb/brock"
)

// Store has objects under keys. It may be used by any number of goroutines; what is said of a
// transaction holds for the calls that are given one.
type Store struct{ space }

// Open returns the objects of this name, in the keyspaces name and name + ".parts". In a store that
// is open for writing it makes those that are missing. It returns ErrInvalid for options or a name
// that are not possible and for a keyspace with a TTL, ErrKeyspaceNotFound if a read-only store
// does not have the objects, and else the errors of DB.Keyspace.
func Open(db *brock.DB, name string, o Options) (*Store, error) {
	s := new(Store)
	if err := s.openSpace(db, name, objectHead, &o); err != nil {
		return nil, err
	}
	return s, nil
}

// Put stores all that r has under key, within txn: it is committed with all else in it. What was
// there is removed. After an error txn is as before the call, or can't be committed any more; what
// was read of r is gone.
//
// Put returns the error of r; ErrInvalid for a key or options that are not possible, for a reader
// that is nil or returns impossible counts, and for another length than o.Size; io.ErrNoProgress
// for a reader that returns nothing many times; and the errors of Txn.Set. An Update that runs
// again must give another reader: see the package comment.
func (s *Store) Put(txn *brock.Txn, key []byte, r io.Reader, o PutOptions) (Info, error) {
	h, err := s.putContent(txn, r, &o, s.linkAt(key))
	if err != nil {
		return Info{}, err
	}
	return h.makeInfo(key), nil
}

// Upload stores all that r has under key, in transactions of its own, and returns when it is
// committed as Options.Durability says. r is read once, in a transaction that stays open meanwhile
// and can't conflict. A crash leaves the object, or what later Uploads and Sweep remove.
//
// with, unless nil, runs in the transaction that makes the object visible, behind it, and may run
// several times, as in DB.Update. If it returns an error, so does Upload, and nothing is stored.
//
// The errors are those of Put and of DB.UpdateContext, and ErrSwept.
func (s *Store) Upload(ctx context.Context, key []byte, r io.Reader, o PutOptions, with func(txn *brock.Txn, info Info) error) (Info, error) {
	// It may be long until the key is used.
	key = bytes.Clone(key)
	return s.uploadContent(ctx, r, &o, key, s.linkAt(key), with)
}

// linkAt returns what makes h the object of key.
func (s *Store) linkAt(key []byte) linker {
	return linker{check: func(txn *brock.Txn) error {
		_, err := s.findHead(txn, key)
		return ignoreAbsent(err)
	}, link: func(txn *brock.Txn, h *head) (*head, error) {
		// Not before the content was read: its reader may have written to the key in this
		// transaction.
		old, err := s.findHead(txn, key)
		if ignoreAbsent(err) != nil {
			return nil, err
		}
		if err := txn.In(s.heads).Set(key, h.encodeHead()); err != nil {
			return nil, err
		}
		return h, s.deleteParts(txn, old)
	}}
}

// Delete removes the object of key within txn; it is no error if there is none. Its errors are
// those of Txn.Delete and Txn.Get.
func (s *Store) Delete(txn *brock.Txn, key []byte) error {
	h, err := s.findHead(txn, key)
	if err != nil {
		return ignoreAbsent(err)
	}
	return s.deleteHead(txn, key, h)
}

// Open returns the object of key, as txn sees it; ErrKeyNotFound if there is none. The object can
// be read until txn ends. It need not be closed. Other errors are those of Txn.Get, a *DamageError,
// and ErrFormat for an object of a later release.
func (s *Store) Open(txn *brock.Txn, key []byte) (*Object, error) { return s.openObject(txn, key) }

// Stat returns what is known of the object of key. Its errors are those of Open.
func (s *Store) Stat(txn *brock.Txn, key []byte) (Info, error) { return s.statHead(txn, key) }

// List yields the objects whose keys begin with prefix, in the order of keys. An object whose head
// is damaged is yielded with its Key and an error; the loop may go on behind it. After any other
// error the sequence ends.
func (s *Store) List(txn *brock.Txn, prefix []byte) iter.Seq2[Info, error] {
	return s.listHeads(txn, prefix)
}

// Verify reads all objects as of now, and checks that heads and parts agree, that each part can be
// read and that digests are right, and that there is no part without a head. It calls report,
// unless nil, for each problem, one at a time. It returns the first problem, for which errors.Is
// reports brock.ErrCorrupt, the error that kept it from going on, or nil if all is well. It is a
// long reader of the store; and takes 32 MB of memory at most.
func (s *Store) Verify(ctx context.Context, report func(*DamageError)) error {
	return s.verifyAll(ctx, report)
}

// Sweep removes what crashes have left of Uploads, if it is older than an hour, and parts
// without a head. It returns how many Puts they were of. Each Upload removes the first kind, too.
func (s *Store) Sweep(ctx context.Context) (removed int, err error) { return s.sweepAll(ctx) }
