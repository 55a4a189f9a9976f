package brock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/brockdb/brock"
)

// The functions set, get and iterate are those of the Badger slides of 2018,
// but for the package's name and DefaultOptions, which takes the directory.

func set(db *brock.DB, key, val []byte) error {
	return db.Update(func(txn *brock.Txn) error {
		return txn.Set(key, val)
	})
}

func get(db *brock.DB, key []byte) ([]byte, error) {
	var val []byte
	err := db.View(func(txn *brock.Txn) error {
		item, err := txn.Get(key)
		if err != nil {
			return err
		}
		v, err := item.Value()
		if err != nil {
			return err
		}
		val = append(val, v...)
		return nil
	})
	return val, err
}

func iterate(db *brock.DB) error {
	return db.View(func(txn *brock.Txn) error {
		opts := brock.DefaultIteratorOptions
		it := txn.NewIterator(opts)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			item := it.Item()
			k := item.Key()
			v, err := item.Value()
			if err != nil {
				return err
			}
			fmt.Printf("key=%s, value=%s\n", k, v)
		}
		return nil
	})
}

func Example() {
	dir, err := os.MkdirTemp("", "brock")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := brock.Open(brock.DefaultOptions(dir))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	if err := set(db, []byte("answer"), []byte("42")); err != nil {
		log.Fatal(err)
	}
	if err := set(db, []byte("question"), []byte("6 x 9")); err != nil {
		log.Fatal(err)
	}
	val, err := get(db, []byte("answer"))
	fmt.Printf("%s %v\n", val, err)
	if err := iterate(db); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 42 <nil>
	// key=answer, value=42
	// key=question, value=6 x 9
}

func openMemory() *brock.DB {
	db, err := brock.Open(brock.Options{InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	return db
}

func ExampleTxn_Prefix() {
	db := openMemory()
	defer db.Close()
	_ = db.Update(func(txn *brock.Txn) error {
		for _, name := range []string{"ann", "bob", "cid"} {
			if err := txn.Set([]byte("user/"+name), []byte("hello "+name)); err != nil {
				return err
			}
		}
		return nil
	})
	err := db.View(func(txn *brock.Txn) error {
		for item, err := range txn.Prefix([]byte("user/")) {
			if err != nil {
				return err
			}
			v, err := item.Value()
			if err != nil {
				return err
			}
			fmt.Printf("%s: %s\n", item.Key(), v)
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// user/ann: hello ann
	// user/bob: hello bob
	// user/cid: hello cid
	// <nil>
}

func ExampleDB_CompareAndSet() {
	db := openMemory()
	defer db.Close()
	key := []byte("lock")
	fmt.Println(db.CompareAndSet(key, []byte("mine"), 0)) // if nobody has it
	err := db.CompareAndSet(key, []byte("mine too"), 0)
	fmt.Println(errors.Is(err, brock.ErrVersionMismatch), errors.Is(err, brock.ErrConflict))
	// Output:
	// <nil>
	// true true
}

func ExampleBatch_At() {
	db, err := brock.Open(brock.Options{InMemory: true, KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Manual: true}}})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ctx := context.Background()
	batch := db.NewBatch()
	for _, height := range []uint64{100, 120} {
		_ = batch.At(height) // two blocks, in one commit
		_ = batch.Set([]byte("balance"), fmt.Append(nil, height/10))
	}
	fmt.Println(batch.Commit(ctx, brock.Synced))
	_ = db.ViewContext(ctx, brock.TxnOptions{ReadAt: 119}, func(txn *brock.Txn) error {
		item, err := txn.Get([]byte("balance"))
		if err != nil {
			return err
		}
		value, err := item.Value()
		fmt.Printf("%s, of version %d\n", value, item.Version())
		return err
	})
	_, err = db.Begin(ctx, brock.TxnOptions{Update: true, CommitAt: brock.MaxCommitAt + 1})
	fmt.Println(err)
	err = db.UpdateContext(ctx, brock.TxnOptions{CommitAt: 120}, func(txn *brock.Txn) error { return txn.Delete([]byte("balance")) })
	fmt.Println(errors.Is(err, brock.ErrVersionMismatch))
	// Output:
	// 120 <nil>
	// 10, of version 100
	// brock: option CommitAt: is above MaxCommitAt
	// true
}

func ExampleTxn_NewIterator_reverse() {
	db := openMemory()
	defer db.Close()
	batch := db.NewBatch()
	for i := range 5 {
		_ = batch.Set(fmt.Appendf(nil, "log/%d", i), fmt.Appendf(nil, "line %d", i))
	}
	if _, err := batch.Commit(context.Background(), brock.DefaultDurability); err != nil {
		log.Fatal(err)
	}
	_ = db.View(func(txn *brock.Txn) error {
		it := txn.NewIterator(brock.IteratorOptions{Prefix: []byte("log/"), Reverse: true, Limit: 2})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			fmt.Printf("%s\n", it.Item().Key())
		}
		return it.Err()
	})
	// Output:
	// log/4
	// log/3
}
