package brock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/brockdb/brock"
)

// A function that takes a Keyspace also works for keys without one.
func ExampleDB_Default() {
	db, err := brock.Open(brock.Options{InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	count := func(ks *brock.Keyspace) (n int) {
		err := ks.View(func(txn *brock.Txn) error {
			for _, err := range txn.Items(brock.IteratorOptions{KeysOnly: true}) {
				if err != nil {
					return err
				}
				n++
			}
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
		return n
	}
	users, err := db.Keyspace("users")
	if err != nil {
		log.Fatal(err)
	}
	if err := users.Set([]byte("ann"), nil); err != nil {
		log.Fatal(err)
	}
	fmt.Println(count(users), count(db.Default()))
	// Output: 1 0
}

// Calls that take a range take a prefix so.
func ExamplePrefixRange() {
	db, err := brock.Open(brock.Options{InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for _, key := range []string{"order/1", "order/2", "user/ann"} {
		if err := db.Set([]byte(key), []byte("value")); err != nil {
			log.Fatal(err)
		}
	}
	entries, _ := db.EstimateSize(brock.PrefixRange([]byte("order/")))
	fmt.Println("about", entries, "orders")
	batch := db.NewBatch()
	if err := batch.DeleteRange(brock.PrefixRange([]byte("order/"))); err != nil {
		log.Fatal(err)
	}
	if _, err := batch.Commit(context.Background(), brock.Synced); err != nil {
		log.Fatal(err)
	}
	// Output: about 2 orders
}

// The head of a queue: the least key of a prefix.
func ExampleTxn_First() {
	db, err := brock.Open(brock.Options{InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for _, job := range []string{"job/1", "job/2"} {
		if err := db.Set([]byte(job), nil); err != nil {
			log.Fatal(err)
		}
	}
	for {
		err := db.Update(func(txn *brock.Txn) error {
			job, err := txn.First(brock.PrefixRange([]byte("job/")))
			if err != nil {
				return err
			}
			fmt.Printf("%s\n", job.Key())
			return txn.Delete(job.Key())
		})
		if err == brock.ErrKeyNotFound {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// job/1
	// job/2
}
