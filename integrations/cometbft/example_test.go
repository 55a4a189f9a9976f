package brockcometbft_test

import (
	"fmt"
	"log"
	"os"
	"strings"
	"testing"

	db "github.com/cometbft/cometbft-db"

	"github.com/brockdb/brock"
	brockcometbft "github.com/brockdb/brock/integrations/cometbft"
	"github.com/brockdb/brock/internal/test/kit/assert"
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

// TestReadme: the README shows the program above.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	assert.OK(t, err)
	source, err := os.ReadFile("example_test.go")
	assert.OK(t, err)
	_, code, _ := strings.Cut(string(source), "func blocks(")
	code, _, _ = strings.Cut("func blocks("+code, "\n}\n")
	code = "    " + strings.ReplaceAll(code+"\n}\n", "\n", "\n    ")
	if code = strings.TrimRight(code, " "); !strings.Contains(string(readme), code) {
		t.Errorf("README.md does not show this:\n%s", code)
	}
}
