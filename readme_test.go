package brock_test

import (
	"fmt"
	"log"
	"os"

	"github.com/brockdb/brock"
)

// visit is the code in README.md, which internal/test/arch compares with it.
func visit(dir string) error {
	db, err := brock.Open(brock.DefaultOptions(dir))
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.Set([]byte("user/ann"), []byte("hello")); err != nil {
		return err
	}
	return db.View(func(txn *brock.Txn) error {
		for item, err := range txn.Prefix([]byte("user/")) {
			if err != nil {
				return err
			}
			fmt.Printf("%s since version %d\n", item.Key(), item.Version())
		}
		return nil
	})
}

func Example_readme() {
	dir, err := os.MkdirTemp("", "brock")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	fmt.Println(visit(dir))
	fmt.Println(visit(dir))
	// Output:
	// user/ann since version 1
	// <nil>
	// user/ann since version 2
	// <nil>
}
