package repository_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/repository"
)

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := brock.Open(brock.Options{Dir: filepath.Join(dir, "orders")})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	s := repository.Dir(nil, filepath.Join(dir, "backups"))
	for _, state := range []string{"ordered", "paid", "sent"} {
		if err := db.Set([]byte("order 1"), []byte(state)); err != nil {
			log.Fatal(err)
		}
		if _, err := repository.Backup(ctx, db, s, repository.Options{}); err != nil {
			log.Fatal(err)
		}
	}

	backups, err := repository.List(ctx, s)
	if err != nil {
		log.Fatal(err)
	}
	copied := filepath.Join(dir, "copy")
	if _, err := repository.Restore(ctx, s, backups[1].ID, copied, repository.RestoreOptions{}); err != nil {
		log.Fatal(err)
	}
	restored, err := brock.Open(brock.Options{Dir: copied, MustExist: true})
	if err != nil {
		log.Fatal(err)
	}
	defer restored.Close()
	value, err := restored.Get([]byte("order 1"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d backups; in the second one it is %s\n", len(backups), value)

	pruned, err := repository.Prune(ctx, s, repository.Keep{Last: 1}, repository.PruneOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(pruned.Removed), "removed")
	// Output:
	// 3 backups; in the second one it is paid
	// 2 removed
}
