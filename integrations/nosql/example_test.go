package brocknosql_test

import (
	"fmt"
	"log"
	"os"
	"strings"
	"testing"

	"github.com/smallstep/nosql/database"

	brocknosql "github.com/brockdb/brock/integrations/nosql"
	"github.com/brockdb/brock/internal/test/kit/assert"
)

// remember is the code in README.md, which TestReadme compares with it.
func remember(dir string) error {
	var db database.DB = new(brocknosql.DB)
	if err := db.Open(dir); err != nil {
		return err
	}
	defer db.Close()
	certs := []byte("x509_certs")
	tx := new(database.Tx)
	tx.CreateTable(certs)
	tx.Set(certs, []byte("17"), []byte("a certificate"))
	if err := db.Update(tx); err != nil {
		return err
	}
	value, err := db.Get(certs, []byte("17"))
	fmt.Printf("%s\n", value)
	return err
}

func Example() {
	dir, err := os.MkdirTemp("", "brocknosql")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := remember(dir); err != nil {
		log.Fatal(err)
	}
	// Output: a certificate
}

// TestReadme: the README shows the program above.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	assert.OK(t, err)
	source, err := os.ReadFile("example_test.go")
	assert.OK(t, err)
	_, code, _ := strings.Cut(string(source), "func remember(")
	code, _, _ = strings.Cut("func remember("+code, "\n}\n")
	code = "    " + strings.ReplaceAll(code+"\n}\n", "\n", "\n    ")
	if code = strings.TrimRight(code, " "); !strings.Contains(string(readme), code) {
		t.Errorf("README.md does not show this:\n%s", code)
	}
}
