package brockcometbft_test

import (
	"fmt"
	"log"
	"os"

	db "github.com/cometbft/cometbft-db"

	"github.com/brockdb/brock"
	brockcometbft "github.com/brockdb/brock/integrations/cometbft"
)

// blocks is the code in README.md, which TestReadme compares with it.
func blocks(dir string) error {
	var store db.DB
	store, err := brockcometbft.Open("blockstore", dir, brock.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	batch := store.NewBatch()
	defer batch.Close()
	for height := range 3 {
		if err := batch.Set(fmt.Appendf(nil, "block/%d", height), []byte("parts")); err != nil {
			return err
		}
	}
	if err := batch.WriteSync(); err != nil {
		return err
	}
	it, err := store.ReverseIterator([]byte("block/1"), nil)
	if err != nil {
		return err
	}
	defer it.Close()
	for ; it.Valid(); it.Next() {
		fmt.Printf("%s: %s\n", it.Key(), it.Value())
	}
	return it.Error()
}

func Example() {
	dir, err := os.MkdirTemp("", "brockcometbft")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := blocks(dir); err != nil {
		log.Fatal(err)
	}
	// Output:
	// block/2: parts
	// block/1: parts
}
