package brockethdb_test

import (
	"fmt"
	"log"
	"os"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/ethdb"

	"github.com/brockdb/brock"
	brockethdb "github.com/brockdb/brock/integrations/ethdb"
	"github.com/brockdb/brock/internal/test/kit/assert"
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

// TestReadme: the README shows the program above.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	assert.OK(t, err)
	source, err := os.ReadFile("example_test.go")
	assert.OK(t, err)
	_, code, _ := strings.Cut(string(source), "func headers(")
	code, _, _ = strings.Cut("func headers("+code, "\n}\n")
	code = "    " + strings.ReplaceAll(code+"\n}\n", "\n", "\n    ")
	if code = strings.TrimRight(code, " "); !strings.Contains(string(readme), code) {
		t.Errorf("README.md does not show this:\n%s", code)
	}
}
