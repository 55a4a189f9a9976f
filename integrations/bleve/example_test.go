package brockbleve_test

import (
	"fmt"
	"log"
	"os"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/index/upsidedown"

	brockbleve "github.com/brockdb/brock/integrations/bleve"
)

// search is the code in README.md, which TestReadme compares with it.
func search(path string) error {
	// Once, in an init: registry.RegisterKVStore(brockbleve.Name, brockbleve.New)
	mapping := bleve.NewIndexMapping()
	index, err := bleve.NewUsing(path, mapping, upsidedown.Name, brockbleve.Name, nil)
	if err != nil {
		return err
	}
	defer index.Close()
	if err := index.Index("1", map[string]string{"name": "a quick brown badger"}); err != nil {
		return err
	}
	result, err := index.Search(bleve.NewSearchRequest(bleve.NewMatchQuery("badger")))
	if err != nil {
		return err
	}
	fmt.Println(result.Total, result.Hits[0].ID)
	return nil
}

func Example() {
	dir, err := os.MkdirTemp("", "brockbleve")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := search(dir + "/index"); err != nil {
		log.Fatal(err)
	}
	// Output: 1 1
}
