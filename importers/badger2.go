package importers

import (
	"math"

	"github.com/dgraph-io/badger/v2"
	"github.com/dgraph-io/badger/v2/options"
)

// openBadger2 opens a store of Badger 2 in managed mode: it shows versions of any number then, and
// gives up none.
func openBadger2(o *badgerOpening) (s badgerStore, err error) {
	db, err := badger.OpenManaged(badger.DefaultOptions(o.dir).WithValueDir(o.valueDir).WithLogger(o.log).
		WithReadOnly(!o.write).WithTruncate(o.write).WithEncryptionKey(o.key).
		WithNumCompactors(0).WithCompactL0OnClose(false).
		WithVerifyValueChecksum(true).WithChecksumVerificationMode(options.OnBlockRead).
		WithBlockCacheSize(badgerCache).WithIndexCacheSize(badgerCache))
	if db != nil {
		s.close = db.Close
	}
	if err != nil {
		return s, err
	}
	// An iterator that meets a damaged table ends there, without an error.
	if err := db.VerifyChecksum(); err != nil {
		return s, err
	}
	s.walk = func(all bool, from []byte, fn func(*pair) error) error {
		txn := db.NewTransactionAt(math.MaxUint64, false)
		defer txn.Discard()
		how := badger.DefaultIteratorOptions
		how.AllVersions, how.PrefetchSize = all, badgerPrefetch
		it := txn.NewIterator(how)
		defer it.Close()
		return walkBadger[*badger.Item](it, from, fn)
	}
	return s, nil
}
