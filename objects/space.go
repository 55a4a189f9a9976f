package objects

import (
	"bytes"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/brockdb/brock"
)

// Options of a Store or of Blobs. The zero value is good.
type Options struct {
	PartSize  int                   // bytes in each part of what is written from now on; 0 = DefaultPartSize; 1 KiB to 64 MiB
	Keyspaces brock.KeyspaceOptions // of the two keyspaces if they are made now; TTL must be 0, and KeyspaceDefaults.TTL does not count
}

// space is the two keyspaces of objects of one kind.
type space struct {
	db       *brock.DB
	heads    *brock.Keyspace
	parts    *brock.Keyspace
	kind     headKind
	partSize int
}

// partsSuffix ends the name of the keyspace of parts.
const partsSuffix = ".parts"

// openSpace opens the two keyspaces.
func (s *space) openSpace(db *brock.DB, name string, kind headKind, o *Options) (err error) {
	size := o.PartSize
	switch {
	case db == nil:
		return errNotOpened
	case size == 0:
		size = DefaultPartSize
	case size < minPart || size > maxPart:
		return &brock.OptionError{Field: "PartSize", Reason: "is not between 1 KiB and 64 MiB"}
	}
	if o.Keyspaces.TTL > 0 {
		return &brock.OptionError{Field: "Keyspaces.TTL", Reason: "would remove parts before their heads"}
	}
	// Its heads would be among the parts of other objects.
	if name == "" || strings.HasSuffix(name, partsSuffix) {
		return errName
	}
	parts, err := openKeyspace(db, name+partsSuffix, o.Keyspaces)
	if err != nil {
		return err
	}
	heads, err := openKeyspace(db, name, o.Keyspaces)
	if err != nil {
		return err
	}
	*s = space{db: db, heads: heads, parts: parts, kind: kind, partSize: size}
	return nil
}

// openKeyspace returns a keyspace, which it makes with these options if it is missing.
func openKeyspace(db *brock.DB, name string, o brock.KeyspaceOptions) (*brock.Keyspace, error) {
	for ks := range db.Keyspaces() {
		if ks.Name() != name {
			continue
		}
		// Without options: DB.Keyspace would set them, and somebody may have changed those that it
		// has.
		ks, err := db.Keyspace(name)
		if err == nil && ks.Options().TTL > 0 {
			err = &brock.OptionError{Field: "TTL", Reason: "of a keyspace of objects must be 0: parts would go before their heads"}
		}
		return ks, err
	}
	o.TTL = -1 // none, whatever the defaults are
	return db.Keyspace(name, o)
}

// checkTxn returns an error if txn can't be used for calls at all. All else is found by the calls.
func (s *space) checkTxn(txn *brock.Txn) error {
	switch {
	case s.heads == nil:
		return errNotOpened
	case txn == nil:
		return brock.ErrTxnDone
	}
	return nil
}

// checkWrites returns the error that a write in txn would return.
func (s *space) checkWrites(txn *brock.Txn) error {
	if err := s.checkTxn(txn); err != nil {
		return err
	}
	// The range is empty, so this writes nothing.
	return txn.In(s.parts).DeleteRange([]byte{1}, []byte{1})
}

// findHead returns the head of key, or ErrKeyNotFound.
func (s *space) findHead(txn *brock.Txn, key []byte) (*head, error) {
	if err := s.checkTxn(txn); err != nil {
		return nil, err
	}
	item, err := txn.In(s.heads).Get(key)
	if err != nil {
		return nil, err
	}
	return s.readHead(item, key)
}

// readHead decodes the head that item has.
func (s *space) readHead(item *brock.Item, key []byte) (*head, error) {
	value, err := item.ValueCopy(nil)
	if err != nil {
		return nil, explainDamage(err, key, -1, "has a head that can't be read")
	}
	h, err := decodeHead(value, s.kind)
	return h, explainDamage(err, key, -1, "")
}

// deleteHead removes a head and its parts.
func (s *space) deleteHead(txn *brock.Txn, key []byte, h *head) error {
	if err := txn.In(s.heads).Delete(key); err != nil {
		return err
	}
	return s.deleteParts(txn, h)
}

// deleteParts removes the parts of h; nil has none.
func (s *space) deleteParts(txn *brock.Txn, h *head) error {
	switch {
	case h == nil || h.size == 0 || h.unwritten:
		return nil
	// Runs keep range deletes apart, and reads ask these too: small objects do without.
	case h.parts() == 1:
		return txn.In(s.parts).Delete(h.id.partKey(0))
	}
	return s.deleteID(txn, h.id)
}

// deleteID removes all parts with this id.
func (s *space) deleteID(txn *brock.Txn, id objectID) error {
	return txn.In(s.parts).DeleteRange(id.partKey(0), id.pastParts())
}

func (s *space) statHead(txn *brock.Txn, key []byte) (Info, error) {
	h, err := s.findHead(txn, key)
	if err != nil {
		return Info{}, err
	}
	return h.makeInfo(key), nil
}

func (s *space) listHeads(txn *brock.Txn, prefix []byte) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		err := s.eachHead(txn, prefix, func(key []byte, h *head, err error) bool {
			if err != nil {
				return yield(Info{Key: bytes.Clone(key)}, err)
			}
			return yield(h.makeInfo(key), nil)
		})
		if err != nil {
			yield(Info{}, err)
		}
	}
}

// eachHead calls fn with each head whose key begins with prefix, or with why it can't be read. The
// key is valid until fn returns.
func (s *space) eachHead(txn *brock.Txn, prefix []byte, fn func(key []byte, h *head, err error) bool) error {
	if err := s.checkTxn(txn); err != nil {
		return err
	}
	it := txn.In(s.heads).NewIterator(brock.IteratorOptions{Prefix: prefix})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		h, err := s.readHead(it.Item(), it.Item().Key())
		// Only of one object: all else would come again for the next one.
		if err != nil && !errors.Is(err, brock.ErrCorrupt) && !errors.Is(err, brock.ErrFormat) {
			return err
		}
		if !fn(it.Item().Key(), h, err) {
			return nil
		}
	}
	return it.Err()
}

// now is the time of the store in Unix milliseconds.
func (s *space) now() int64 {
	clock := s.db.Options().Now
	if clock == nil {
		clock = time.Now
	}
	return clock().UnixMilli()
}
