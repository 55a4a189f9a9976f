package brock_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"

	"github.com/brockdb/brock"
)

func ExampleTxn_Apply() {
	db, err := brock.Open(brock.Options{InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for _, size := range []uint64{700, 900, 800} {
		err := db.Update(func(txn *brock.Txn) error {
			operand := binary.LittleEndian.AppendUint64(nil, size)
			if err := txn.Apply(brock.OpMax, []byte("largest"), operand); err != nil {
				return err
			}
			return txn.Apply(brock.OpAdd, []byte("total"), operand)
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	largest, err := db.Get([]byte("largest"))
	if err != nil {
		log.Fatal(err)
	}
	total, err := db.Default().Add(context.Background(), []byte("total"), 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(binary.LittleEndian.Uint64(largest), total)
	// Output: 900 2400
}

func ExampleTxn_SetVersioned() {
	db, err := brock.Open(brock.Options{InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for _, line := range []string{"first", "second"} {
		if err := db.Update(func(txn *brock.Txn) error { return txn.SetVersioned([]byte("log/"), []byte(line)) }); err != nil {
			log.Fatal(err)
		}
	}
	err = db.View(func(txn *brock.Txn) error {
		for item, err := range txn.Prefix([]byte("log/")) {
			if err != nil {
				return err
			}
			line, err := item.Value()
			if err != nil {
				return err
			}
			fmt.Printf("%x %s\n", item.Key()[len("log/"):], line)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// 000000000000000100000000 first
	// 000000000000000200000000 second
}
