package importers

import (
	"errors"
	"math"

	"github.com/dgraph-io/badger"
)

// openBadger1 opens a store of Badger 1 in managed mode: it shows versions of any number then, and
// gives up none.
func openBadger1(o *badgerOpening) (s badgerStore, err error) {
	if o.key != nil {
		return s, errors.New("a key was given, and Badger 1 has no encryption")
	}
	db, err := badger.OpenManaged(badger.DefaultOptions(o.dir).WithValueDir(o.valueDir).WithLogger(o.log).
		WithEventLogging(false).WithReadOnly(!o.write).WithTruncate(o.write).WithVerifyValueChecksum(true).
		WithNumCompactors(0).WithCompactL0OnClose(false))
	if db != nil {
		s.close = db.Close
	}
	if err != nil {
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
