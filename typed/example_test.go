package typed_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/typed"
)

func Example() {
	type User struct {
		Mail  string
		Towns []string
	}
	db, err := brock.Open(brock.Options{InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ks, err := db.Keyspace("tables")
	if err != nil {
		log.Fatal(err)
	}
	users := typed.NewTable(ks, "users", typed.Uint64, typed.JSON[User]())
	byMail := typed.NewUnique(users, "mail", typed.String, func(u *User) []string { return []string{u.Mail} })
	byTown := typed.NewIndex(users, "town", typed.String, func(u *User) []string { return u.Towns })

	err = db.Update(func(txn *brock.Txn) error {
		if err := users.Put(txn, 7, &User{"ann@example.org", []string{"Bern"}}); err != nil {
			return err
		}
		return users.Put(txn, 8, &User{"bob@example.org", []string{"Bonn", "Bern"}})
	})
	if err != nil {
		log.Fatal(err)
	}
	err = db.View(func(txn *brock.Txn) error {
		for row, err := range byTown.Backward().Prefix(txn, "B") {
			if err != nil {
				return err
			}
			fmt.Println(row.Key, row.Record.Mail)
		}
		id, _, err := byMail.Get(txn, "ann@example.org")
		fmt.Println("ann is", id)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	err = db.Update(func(txn *brock.Txn) error {
		return users.Insert(txn, 9, &User{Mail: "bob@example.org"})
	})
	var double *typed.DuplicateError[uint64]
	if errors.As(err, &double) {
		fmt.Println("taken by", double.Other)
	}
	// Output:
	// 8 bob@example.org
	// 8 bob@example.org
	// 7 ann@example.org
	// ann is 7
	// taken by 8
}
