package brock_test

import (
	"context"
	"fmt"
	"iter"
	"log"
	"sync"

	"github.com/brockdb/brock"
)

// Sorted keys go directly to their files. Nothing of them is visible before Finish.
func ExampleKeyspace_NewLoader() {
	db, err := brock.Open(brock.Options{InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	load := func() (version uint64, err error) {
		l, err := db.Default().NewLoader(context.Background(), brock.LoadOptions{Sorted: true})
		if err != nil {
			return 0, err
		}
		defer l.Abort() // does nothing after Finish
		for i := range 100_000 {
			if err := l.Set(fmt.Appendf(nil, "row/%06d", i), []byte("value")); err != nil {
				return 0, err
			}
		}
		return l.Finish()
	}
	fmt.Println(load())
	// Output: 1 <nil>
}

// An index is made anew: Stream reads what is indexed with all cores, and a Loader replaces the index
// by one commit, while others read the old one.
func ExampleKeyspace_Stream() {
	db, err := brock.Open(brock.Options{InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	users, err := db.Keyspace("users")
	if err != nil {
		log.Fatal(err)
	}
	byMail, err := db.Keyspace("users by mail")
	if err != nil {
		log.Fatal(err)
	}
	for id, mail := range []string{"zoe@example.org", "ada@example.org", "kim@example.org"} {
		if err := users.Set(fmt.Append(nil, id), []byte(mail)); err != nil {
			log.Fatal(err)
		}
	}

	rebuild := func(ctx context.Context) error {
		l, err := byMail.NewLoader(ctx, brock.LoadOptions{Replace: true})
		if err != nil {
			return err
		}
		defer l.Abort()
		var mu sync.Mutex // one goroutine at a time may use a Loader
		err = users.Stream(ctx, brock.StreamOptions{}, func(part int, items iter.Seq2[*brock.Item, error]) error {
			for item, err := range items {
				if err != nil {
					return err
				}
				mail, err := item.Value()
				if err != nil {
					return err
				}
				mu.Lock()
				err = l.Set(mail, item.Key())
				mu.Unlock()
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		_, err = l.Finish()
		return err
	}
	if err := rebuild(context.Background()); err != nil {
		log.Fatal(err)
	}
	err = byMail.View(func(txn *brock.Txn) error {
		for item, err := range txn.All() {
			if err != nil {
				return err
			}
			id, err := item.Value()
			if err != nil {
				return err
			}
			fmt.Printf("%s: user %s\n", item.Key(), id)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// ada@example.org: user 1
	// kim@example.org: user 2
	// zoe@example.org: user 0
}
