package importers_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/importers"
)

func bring(ctx context.Context, file, dir string) error {
	s, err := importers.Import(ctx, importers.Options{
		Peer:   importers.Bbolt,
		Source: file,
		Store:  brock.Options{Dir: dir},
	})
	if err != nil {
		return err // the same call goes on where it was
	}
	fmt.Printf("%d pairs, %d compared\n", s.Pairs, s.Compared.Pairs)
	return nil
}

func ExampleImport() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "data.bolt")
	db, err := bolt.Open(file, 0o600, nil)
	if err != nil {
		log.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		users, err := tx.CreateBucket([]byte("users"))
		if err != nil {
			return err
		}
		return users.Put([]byte("ann"), []byte("hello"))
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := db.Close(); err != nil {
		log.Fatal(err)
	}
	if err := bring(context.Background(), file, filepath.Join(dir, "store")); err != nil {
		log.Fatal(err)
	}
	// Output: 1 pairs, 1 compared
}

// TestReadme: the program in the README is the one that the example runs.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "```go\n")
	code, _, found := strings.Cut(rest, "```")
	if !found || !strings.Contains(string(source), "\n"+code) {
		t.Errorf("example_test.go has not the program of the README:\n%s", code)
	}
	for _, peer := range importers.Peers() {
		if !strings.Contains(string(readme), "`"+string(peer)+"`") {
			t.Errorf("the README does not name %s", peer)
		}
	}
}
