package importers

import (
	"math"
	"path/filepath"

	"github.com/dgraph-io/badger"
)

// writeBadger1 writes a record to a store of Badger 1, which close ends in order. With values, the
// value log has a directory of its own.
func writeBadger1(dir, values string, key []byte, r *record) (end func() error, err error) {
	o := badger.DefaultOptions(dir).WithLogger(nil).WithEventLogging(false).WithValueThreshold(1024).WithMaxTableSize(1 << 20)
	o = o.WithNumVersionsToKeep(math.MaxInt).WithValueLogFileSize(4 << 20).WithSyncWrites(true)
	if values != "" {
		o = o.WithValueDir(filepath.Clean(values))
	}
	db, err := badger.OpenManaged(o)
	if err != nil {
		return nil, err
	}
	for _, p := range r.pairs {
		txn := db.NewTransactionAt(math.MaxUint64, true)
		if p.deleted {
			err = txn.Delete(p.key)
		} else {
			e := badger.NewEntry(p.key, p.value).WithMeta(p.meta)
			e.ExpiresAt = p.expires
			err = txn.SetEntry(e)
		}
		if err == nil {
			err = txn.CommitAt(p.version, nil)
		}
		if err != nil {
			return nil, err
		}
	}
	return db.Close, nil
}
