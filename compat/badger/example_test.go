package badger_test

import (
	"fmt"
	"log"
	"os"

	badger "github.com/brockdb/brock/compat/badger"
)

// answer is the program of the README. Only its import path is not Badger's.
func answer(dir string) error {
	db, err := badger.Open(badger.DefaultOptions(dir))
	if err != nil {
		return err
	}
	defer db.Close()
	err = db.Update(func(txn *badger.Txn) error {
		return txn.Set([]byte("answer"), []byte("42"))
	})
	if err != nil {
		return err
	}
	return db.View(func(txn *badger.Txn) error {
		item, err := txn.Get([]byte("answer"))
		if err != nil {
			return err
		}
		return item.Value(func(val []byte) error {
			fmt.Printf("The answer is %s\n", val)
			return nil
		})
	})
}

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := answer(dir); err != nil {
		log.Fatal(err)
	}
	// Output: The answer is 42
}

// Versions that the caller gives, in any order.
func ExampleOpenManaged() {
	db, err := badger.OpenManaged(badger.DefaultOptions("").WithInMemory(true).WithLogger(nil))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for _, ts := range []uint64{20, 10} {
		txn := db.NewTransactionAt(ts, true)
		if err := txn.Set([]byte("key"), fmt.Appendf(nil, "of version %d", ts)); err != nil {
			log.Fatal(err)
		}
		if err := txn.CommitAt(ts, nil); err != nil {
			log.Fatal(err)
		}
	}
	txn := db.NewTransactionAt(15, false)
	defer txn.Discard()
	item, err := txn.Get([]byte("key"))
	if err != nil {
		log.Fatal(err)
	}
	val, err := item.ValueCopy(nil)
	fmt.Printf("%s %v\n", val, err)
	// Output: of version 10 <nil>
}
