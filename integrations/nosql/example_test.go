package brocknosql_test

import (
	"fmt"
	"log"
	"os"

	"github.com/smallstep/nosql/database"

	brocknosql "github.com/brockdb/brock/integrations/nosql"
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
