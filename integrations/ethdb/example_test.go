package brockethdb_test

import (
	"fmt"
	"log"
	"os"

	"github.com/ethereum/go-ethereum/ethdb"

	"github.com/brockdb/brock"
	brockethdb "github.com/brockdb/brock/integrations/ethdb"
)

// headers is the code in README.md, which TestReadme compares with it.
func headers(dir string) error {
	var db ethdb.KeyValueStore
	db, err := brockethdb.Open(brock.Options{Dir: dir})
	if err != nil {
		return err
	}
	defer db.Close()
	batch := db.NewBatch()
	for n := range 3 {
		if err := batch.Put(fmt.Appendf(nil, "h%d", n), []byte("header")); err != nil {
			return err
		}
	}
	if err := batch.Write(); err != nil {
		return err
	}
	it := db.NewIterator([]byte("h"), []byte("1"))
	defer it.Release()
	for it.Next() {
		fmt.Printf("%s: %s\n", it.Key(), it.Value())
	}
	return it.Error()
}

func Example() {
	dir, err := os.MkdirTemp("", "brockethdb")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := headers(dir); err != nil {
		log.Fatal(err)
	}
	// Output:
	// h1: header
	// h2: header
}
