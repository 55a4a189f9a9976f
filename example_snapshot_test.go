package brock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/brockdb/brock"
)

// A Snapshot reads the same, whatever is written meanwhile.
func ExampleDB_Snapshot() {
	db, err := brock.Open(brock.Options{InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.Set([]byte("price"), []byte("10")); err != nil {
		log.Fatal(err)
	}
	snapshot, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer snapshot.Close()
	if err := db.Set([]byte("price"), []byte("12")); err != nil {
		log.Fatal(err)
	}
	err = snapshot.View(context.Background(), func(txn *brock.Txn) error {
		item, err := txn.Get([]byte("price"))
		if err != nil {
			return err
		}
		value, err := item.Value()
		fmt.Printf("%s\n", value)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: 10
}

// What the time does not reach is ErrVersionGone; for now it is the newest version.
func ExampleDB_VersionAt() {
	db, err := brock.Open(brock.Options{InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.Set([]byte("price"), []byte("10")); err != nil {
		log.Fatal(err)
	}
	version, err := db.VersionAt(time.Now().Add(time.Hour))
	fmt.Println(version, err)
	_, err = db.VersionAt(time.Now().Add(-time.Hour))
	fmt.Println(errors.Is(err, brock.ErrVersionGone))
	// Output:
	// 1 <nil>
	// true
}

// A part of an update that fails is taken back, and the rest is committed.
func ExampleTxn_RollbackTo() {
	db, err := brock.Open(brock.Options{InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	err = db.Update(func(txn *brock.Txn) error {
		for _, seat := range []string{"1A", "1A", "1B"} {
			before := txn.Savepoint()
			taken, err := txn.Has([]byte(seat))
			if err != nil {
				return err
			}
			if err := txn.Set([]byte(seat), nil); err != nil {
				return err
			}
			if taken {
				fmt.Println(seat, "is taken")
				if err := txn.RollbackTo(before); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: 1A is taken
}

// Two doctors are on call, and one must stay. Both would leave under SnapshotIsolation, if the rota
// were not locked: the second commit conflicts.
func ExampleTxn_Lock() {
	db, err := brock.Open(brock.Options{InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	o := brock.TxnOptions{Update: true, Isolation: brock.SnapshotIsolation}
	var doctors []*brock.Txn
	for _, name := range []string{"ann", "bob"} {
		txn, err := db.Begin(context.Background(), o)
		if err != nil {
			log.Fatal(err)
		}
		defer txn.Discard()
		// After a look at who else is there.
		if err := errors.Join(txn.Lock([]byte("rota")), txn.Delete([]byte("on call/"+name))); err != nil {
			log.Fatal(err)
		}
		doctors = append(doctors, txn)
	}
	for _, txn := range doctors {
		fmt.Println(errors.Is(txn.Commit(), brock.ErrConflict))
	}
	// Output:
	// false
	// true
}
