package objects_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/objects"
)

// memory opens a store in memory.
func memory() *brock.DB {
	db, err := brock.Open(brock.Options{InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	return db
}

// A reader goes to an object in transactions of the package, and comes back from one of yours.
func ExampleStore_Upload() {
	db := memory()
	defer db.Close()
	files, err := objects.Open(db, "files", objects.Options{})
	if err != nil {
		log.Fatal(err)
	}
	body := strings.NewReader("hello, large world")
	info, err := files.Upload(context.Background(), []byte("greeting"), body, objects.PutOptions{Type: "text/plain"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Size, info.Type)
	err = db.View(func(txn *brock.Txn) error {
		o, err := files.Open(txn, []byte("greeting"))
		if err != nil {
			return err
		}
		if _, err := o.Seek(7, io.SeekStart); err != nil {
			return err
		}
		_, err = io.Copy(os.Stdout, o)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// 18 text/plain
	// large world
}

// An object and a counter change together. The reader is made in the function, as Update may run it
// again.
func ExampleStore_Put() {
	db := memory()
	defer db.Close()
	files, err := objects.Open(db, "files", objects.Options{})
	if err != nil {
		log.Fatal(err)
	}
	err = db.Update(func(txn *brock.Txn) error {
		if _, err := files.Put(txn, []byte("a"), strings.NewReader("content"), objects.PutOptions{}); err != nil {
			return err
		}
		return txn.Set([]byte("files"), []byte("1"))
	})
	if err != nil {
		log.Fatal(err)
	}
	err = db.View(func(txn *brock.Txn) error {
		for info, err := range files.List(txn, nil) {
			if err != nil {
				return err
			}
			fmt.Printf("%s %d %.8s\n", info.Key, info.Size, info.Digest)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: a 7 ed7002b4
}

// The same content is stored once, until the last reference to it is released.
func ExampleBlobs() {
	db := memory()
	defer db.Close()
	blobs, err := objects.OpenBlobs(db, "blobs", objects.Options{})
	if err != nil {
		log.Fatal(err)
	}
	var info objects.Info
	for range 2 {
		if info, err = blobs.Upload(context.Background(), strings.NewReader("content"), objects.PutOptions{}, nil); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%.8s has %d references\n", info.Digest, info.Refs)
	}
	for range 3 {
		err := db.Update(func(txn *brock.Txn) error {
			left, err := blobs.Release(txn, info.Digest)
			if err == nil {
				fmt.Println("left:", left)
			}
			return err
		})
		if errors.Is(err, brock.ErrKeyNotFound) {
			fmt.Println("it is gone")
		}
	}
	// Output:
	// ed7002b4 has 1 references
	// ed7002b4 has 2 references
	// left: 1
	// left: 0
	// it is gone
}
