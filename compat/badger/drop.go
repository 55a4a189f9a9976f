package badger

import (
	"context"

	"github.com/brockdb/brock"
)

// DropAll deletes all pairs. It is a commit: transactions that are open still see what was there, and
// writers are not stopped. It panics in a read-only store.
func (db *DB) DropAll() error { return db.DropPrefix(nil) }

// DropPrefix deletes all pairs whose keys begin with one of the prefixes, as DropAll does.
func (db *DB) DropPrefix(prefixes ...[]byte) error {
	if len(prefixes) == 0 {
		return nil
	}
	if db.opt.ReadOnly {
		panic("Attempting to drop data in read-only mode.")
	}
	db.queue.settle()
	if !db.opt.managedTxns {
		return writeError(db.dropNoted(prefixes))
	}
	stored := make([][]byte, len(prefixes))
	for i, p := range prefixes {
		stored[i] = appendEscaped(nil, p)
	}
	return writeError(db.data.DropPrefix(context.Background(), stored...))
}

// dropNote begins the names under which the state has the prefixes that were dropped. The version of a
// note is that of the last drop. Load needs it: what it loads has older versions, which a drop, unlike a
// delete, does not hide.
const dropNote = "drop/"

// dropNoted drops prefixes of a store that is not managed, and notes that in the same commit.
func (db *DB) dropNoted(prefixes [][]byte) error {
	if db.store.Version() == 0 && !db.IsClosed() { // a new store keeps its versions for a StreamWriter
		return nil
	}
	state, err := db.store.Keyspace(stateKeyspace, brock.KeyspaceOptions{})
	if err != nil {
		return err
	}
	b := db.data.NewBatch()
	for _, p := range prefixes {
		if len(p) > maxKeySize {
			continue // of no key
		}
		note := append([]byte(dropNote), p...)
		// Longer prefixes are dropped with this one.
		for in, prefix := range map[*brock.Batch][]byte{b: p, b.In(state): note} {
			if err := in.DeleteRange(brock.PrefixRange(prefix)); err != nil {
				return err
			}
		}
		if err := b.In(state).Set(note, nil); err != nil {
			return err
		}
	}
	_, err = b.Commit(context.Background(), brock.DefaultDurability)
	return err
}

// drops has the versions of the last drops, by prefix.
type drops struct {
	versions map[string]uint64
	longest  int // prefix
}

// readDrops returns the drops that a transaction sees.
func (db *DB) readDrops(txn *brock.Txn) (d drops, err error) {
	state := db.findKeyspace(stateKeyspace)
	if state == nil {
		return d, nil
	}
	d.versions = make(map[string]uint64)
	for item, err := range txn.In(state).Items(brock.IteratorOptions{Prefix: []byte(dropNote), KeysOnly: true}) {
		if err != nil {
			return d, err
		}
		prefix := string(item.Key()[len(dropNote):])
		d.versions[prefix] = item.Version()
		d.longest = max(d.longest, len(prefix))
	}
	return d, nil
}

// last returns the version of the last drop of key; 0 if there was none.
func (d *drops) last(key []byte) (version uint64) {
	if len(d.versions) == 0 {
		return 0
	}
	for n := range min(d.longest, len(key)) + 1 {
		version = max(version, d.versions[string(key[:n])])
	}
	return version
}
