package brockbleve_test

import (
	"fmt"
	"log"
	"os"
	"strings"
	"testing"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/index/upsidedown"

	brockbleve "github.com/brockdb/brock/integrations/bleve"
	"github.com/brockdb/brock/internal/test/kit/assert"
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

// TestReadme: the README shows the program above.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	assert.OK(t, err)
	source, err := os.ReadFile("example_test.go")
	assert.OK(t, err)
	_, code, _ := strings.Cut(string(source), "func search(")
	code, _, _ = strings.Cut("func search("+code, "\n}\n")
	code = "    " + strings.ReplaceAll(code+"\n}\n", "\n", "\n    ")
	if code = strings.TrimRight(code, " "); !strings.Contains(string(readme), code) {
		t.Errorf("README.md does not show this:\n%s", code)
	}
}
