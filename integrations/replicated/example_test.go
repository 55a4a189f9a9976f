package replicated_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/brockdb/brock/integrations/replicated"
	"github.com/brockdb/brock/integrations/replicated/internal/devcert"
)

// serve is the code in README.md: TestReadme compares them.
func serve(ctx context.Context, dir, address string, c *replicated.Credentials) error {
	network, err := replicated.ListenTLS(address, "", c)
	if err != nil {
		return err
	}
	node, err := replicated.Open(replicated.Options{ID: "n1", Dir: dir, Network: network})
	if err != nil {
		return err
	}
	defer node.Close()
	if err := node.Bootstrap(ctx); err != nil { // others Join
		return err
	}
	command := new(replicated.Command).If([]byte("ann"), 0).Set([]byte("ann"), []byte("hello"))
	if _, err := node.Apply(ctx, command); err != nil {
		return err
	}
	return node.View(ctx, replicated.Newest, func(r *replicated.Reader) error {
		item, err := r.Get([]byte("ann"))
		if err != nil {
			return err
		}
		fmt.Printf("%s since entry %d\n", item.Key(), item.Version())
		return nil
	})
}

func Example() {
	dir, err := os.MkdirTemp("", "brock")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	authority, err := devcert.NewAuthority(dir)
	if err != nil {
		panic(err)
	}
	if err := authority.Issue(dir, "n1"); err != nil {
		panic(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	c, err := replicated.LoadCredentials(at("n1.pem"), at("n1.key"), at("ca.pem"))
	if err != nil {
		panic(err)
	}
	fmt.Println(serve(context.Background(), at("node"), "127.0.0.1:0", c))
	// Output:
	// ann since entry 4
	// <nil>
}
