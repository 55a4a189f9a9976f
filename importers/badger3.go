package importers

import (
	"math"

	"github.com/dgraph-io/badger/v3"
)

// openBadger3 opens a store of Badger 3 in managed mode: it shows versions of any number then, and
// gives up none.
func openBadger3(o *badgerOpening) (s badgerStore, err error) {
	db, err := badger.OpenManaged(badger.DefaultOptions(o.dir).WithValueDir(o.valueDir).WithLogger(nil).
		WithReadOnly(!o.write).WithEncryptionKey(o.key).WithMemTableSize(o.memtable).
		WithNumCompactors(0).WithCompactL0OnClose(false).
		WithBlockCacheSize(badgerCache).WithIndexCacheSize(badgerCache))
	if db != nil {
		s.close = db.Close
	}
	if err != nil {
		return s, err
	}
	s.walk = func(all bool, from []byte, fn func(*pair) error) error {
		txn := db.NewTransactionAt(math.MaxUint64, false)
		defer txn.Discard()
		options := badger.DefaultIteratorOptions
		options.AllVersions, options.PrefetchSize = all, badgerPrefetch
		it := txn.NewIterator(options)
		defer it.Close()
		return walkBadger[*badger.Item](it, from, fn)
	}
	return s, nil
}
