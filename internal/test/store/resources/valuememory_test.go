package resources

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/base/invariant"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/process"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// unmapped is a file system whose files can't be mapped: each value is read into other memory.
type unmapped struct{ vfs.FS }

func (u unmapped) Open(name string) (vfs.File, error) {
	f, err := u.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return unmappedFile{f}, nil
}

func (u unmapped) OpenDirs(names ...string) (vfs.Dirs, error) {
	d, err := u.FS.OpenDirs(names...)
	if err != nil {
		return nil, err
	}
	return unmappedDirs{unmapped{d}, d}, nil
}

type unmappedDirs struct {
	unmapped
	dirs vfs.Dirs
}

func (u unmappedDirs) Close() error { return u.dirs.Close() }

type unmappedFile struct{ vfs.File }

func (unmappedFile) Map(int64) (vfs.Mapping, error) { return nil, errors.ErrUnsupported }

// Values that have to be read make no garbage: neither that of a View, nor those of a long one
// that needs each for a moment.
func TestValuesThatAreReadMakeNoGarbage(t *testing.T) {
	if process.RaceEnabled || invariant.Enabled || invariant.Poisons {
		t.Skip("pools and copies are not those of a release")
	}
	db := storetest.Open(t, brock.Options{Dir: t.TempDir(), FS: unmapped{vfs.OS()}, Durability: brock.Buffered})
	const pairs = 2000
	w := db.NewWriter(t.Context())
	for i := range pairs {
		assert.OK(t, w.Set(fmt.Appendf(nil, "%06d", i), storetest.RandomBytes(i, 2000)))
	}
	assert.OK(t, w.Close())
	assert.OK(t, db.Compact(t.Context()))
	key, want := []byte("001234"), storetest.RandomBytes(1234, 2000)
	if n := testing.AllocsPerRun(50, func() {
		assert.OK(t, db.View(func(txn *brock.Txn) error {
			item, err := txn.Get(key)
			if err != nil {
				return err
			}
			got, err := item.Value()
			if err == nil && !bytes.Equal(got, want) {
				t.Error("other bytes")
			}
			return err
		}))
	}); n > 1 {
		t.Errorf("a View and a Value: %v allocations, want the Txn alone", n)
	}
	for what, read := range map[string]func(item *brock.Item, buf *[]byte) error{
		"ValueFunc": func(item *brock.Item, _ *[]byte) error { return item.ValueFunc(func([]byte) error { return nil }) },
		"ValueCopy": func(item *brock.Item, buf *[]byte) (err error) { *buf, err = item.ValueCopy(*buf); return err },
	} {
		buf := make([]byte, 0, 4000)
		if n := testing.AllocsPerRun(3, func() {
			assert.OK(t, db.View(func(txn *brock.Txn) error {
				for item, err := range txn.All() {
					if err == nil {
						err = read(item, &buf)
					}
					if err != nil {
						return err
					}
				}
				return nil
			}))
		}); n > pairs/20 {
			t.Errorf("%s of %d values allocates %v times", what, pairs, n)
		}
	}
}

// valueStore returns a store whose values are read to memory that is lent, and its value i.
func valueStore(t *testing.T, values int) (*brock.DB, func(i int) (key, value []byte)) {
	db := storetest.Open(t, brock.Options{Dir: t.TempDir(), Keys: storetest.MasterKey(1), Durability: brock.Buffered})
	pair := func(i int) (key, value []byte) {
		return fmt.Appendf(nil, "%06d", i), storetest.RandomBytes(i, 500+i%1500)
	}
	w := db.NewWriter(t.Context())
	for i := range values {
		assert.OK(t, w.Set(pair(i)))
	}
	assert.OK(t, w.Close())
	assert.OK(t, db.Compact(t.Context()))
	return db, pair
}

// All values of a transaction stay as they are until it ends, however many they are, beside
// other transactions that end all the time.
func TestLentValuesStayUntilTheTransactionEnds(t *testing.T) {
	const values = 1500
	db, pair := valueStore(t, values)
	check := func(got [][]byte) {
		for i, v := range got {
			if _, want := pair(i); !bytes.Equal(v, want) {
				t.Errorf("value %d: other bytes", i)
			}
		}
	}
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			err := db.View(func(txn *brock.Txn) error {
				var got [][]byte
				for i := range values {
					key, _ := pair(i)
					item, err := txn.Get(key)
					if err != nil {
						return err
					}
					v, err := item.Value()
					if err != nil {
						return err
					}
					got = append(got, v)
				}
				check(got)
				got = got[:0]
				for item, err := range txn.All() {
					if err != nil {
						return err
					}
					v, err := item.Value()
					if err != nil {
						return err
					}
					got = append(got, v)
				}
				check(got)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for i := range 500 {
		key, want := pair(i)
		assert.OK(t, db.View(func(txn *brock.Txn) error {
			item, err := txn.Get(key)
			if err != nil {
				return err
			}
			if got := assert.Must(item.Value()); !bytes.Equal(got, want) {
				t.Errorf("value %d: other bytes", i)
			}
			return nil
		}))
	}
	readers.Wait()
}

// Values of a transaction that was never ended are not overwritten by those who read after it.
func TestLentValuesOfLeakedTransactionsStay(t *testing.T) {
	if !process.RunInChild(t) {
		return
	}
	db, pair := valueStore(t, 100)
	key, want := pair(1)
	var got []byte
	func() { // the transaction is forgotten
		it := assert.Must(db.NewTransaction(false).Get(key))
		got = assert.Must(it.Value())
	}()
	process.CollectGarbage(t, func() bool { return db.Metrics().Leaked == 1 })
	for i := range 100 {
		key, want := pair(i)
		assert.OK(t, db.View(func(txn *brock.Txn) error {
			if v := assert.Must(assert.Must(txn.Get(key)).Value()); !bytes.Equal(v, want) {
				t.Errorf("value %d: other bytes", i)
			}
			return nil
		}))
	}
	if !bytes.Equal(got, want) {
		t.Error("the value of a leaked transaction has changed")
	}
}

// A transaction may end while its iterators read values on other goroutines: each value is whole, or
// an error is returned.
func TestTransactionsEndWhileIteratorsReadValues(t *testing.T) {
	const values = 300
	db, pair := valueStore(t, values)
	for round := range 20 {
		txn := db.NewTransaction(false)
		var readers sync.WaitGroup
		begun := make(chan bool, 4)
		for range cap(begun) {
			it := txn.NewIterator(brock.IteratorOptions{})
			readers.Go(func() {
				defer it.Close()
				for n := range values {
					if n == round {
						begun <- true
					}
					if n == 0 {
						it.Rewind()
					} else {
						it.Next()
					}
					// ValueCopy: what Value returns is not valid any more once the transaction ends.
					got, err := it.Item().ValueCopy(nil)
					if errors.Is(err, brock.ErrTxnDone) || !it.Valid() {
						return
					}
					if _, want := pair(n); err != nil || !bytes.Equal(got, want) {
						t.Errorf("value %d: other bytes, %v", n, err)
					}
					if _, err := it.Item().Value(); err != nil && !errors.Is(err, brock.ErrTxnDone) {
						t.Error(err)
					}
				}
			})
		}
		<-begun
		txn.Discard()
		for i := range 20 {
			key, want := pair(i)
			if got := assert.Must(db.Get(key)); !bytes.Equal(got, want) {
				t.Errorf("value %d: other bytes", i)
			}
		}
		readers.Wait()
	}
}

// GetMany looks nothing up once its transaction has ended, as the pin is another reader's by then.
func TestGetManyOfATransactionThatEnds(t *testing.T) {
	const values = 300
	db, pair := valueStore(t, values)
	var keys [][]byte
	for i := range values {
		key, _ := pair(i)
		keys = append(keys, key)
	}
	txn, n := db.NewTransaction(false), 0
	for item, err := range txn.GetMany(keys) {
		txn.Discard()
		if n++; err == nil {
			_, err = item.Value()
		}
		assert.Error(t, "an item of an ended transaction", err, brock.ErrTxnDone)
	}
	if n == 0 || n == values {
		t.Errorf("%d items", n)
	}
}
