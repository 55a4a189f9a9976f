package brock_test

import (
	"fmt"
	"log"
	"os"

	"github.com/brockdb/brock"
)

// visit is the code in README.md, which internal/arch compares with it.
func visit(dir string) error {
	db, err := brock.Open(brock.DefaultOptions(dir))
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Update(func(txn *brock.Txn) error {
		for item, err := range txn.Prefix([]byte("user/")) {
			if err != nil {
				return err
			}
			fmt.Printf("%s since version %d\n", item.Key(), item.Version())
		}
		return txn.Set([]byte("user/ann"), []byte("hello"))
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
	// <nil>
	// user/ann since version 1
	// <nil>
}
