package brockds_test

import (
	"context"
	"fmt"
	"log"
	"os"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"

	"github.com/brockdb/brock"
	brockds "github.com/brockdb/brock/integrations/datastore"
)

// list is the code in README.md, which TestReadme compares with it.
func list(ctx context.Context, dir string) error {
	d, err := brockds.Open(brock.Options{Dir: dir})
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Put(ctx, ds.NewKey("/blocks/a"), []byte("hello")); err != nil {
		return err
	}
	for e, err := range ds.QueryIter(ctx, d, query.Query{Prefix: "/blocks"}) {
		if err != nil {
			return err
		}
		fmt.Printf("%s has %d bytes\n", e.Key, e.Size)
	}
	return d.Sync(ctx, ds.NewKey("/"))
}

func Example() {
	dir, err := os.MkdirTemp("", "brockds")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := list(context.Background(), dir); err != nil {
		log.Fatal(err)
	}
	// Output: /blocks/a has 5 bytes
}
