// Command blobs keeps files under the SHA-256 of their content, on the command line and over HTTP:
//
//	go run ./examples/blobs put README.md LICENSE   # prints digest and size of each
//	go run ./examples/blobs list
//	go run ./examples/blobs get DIGEST >copy
//	go run ./examples/blobs delete DIGEST
//	go run ./examples/blobs serve
//
// It shows package objects: contents of any size as streams, each stored once, in one store that a
// crash can't leave half-written. There is nothing to collect: a content goes with its last
// reference.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"mime"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/objects"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "blobs:", err)
		stop()
		os.Exit(1)
	}
}

const usage = "usage: blobs [-dir DIR] [-addr HOST:PORT] put FILE... | get DIGEST | list | delete DIGEST... | serve"

// run does one command.
func run(ctx context.Context, args []string, in io.Reader, out io.Writer) (err error) {
	flags := flag.NewFlagSet("blobs", flag.ContinueOnError)
	dir := flags.String("dir", "blobs.db", "directory of the store")
	addr := flags.String("addr", "localhost:8080", "address of serve")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, err := openShelf(*dir)
	if err != nil {
		return err
	}
	// What was committed is durable already. Close tells whether the store still works.
	defer func() { err = errors.Join(err, s.db.Close()) }()
	switch rest := flags.Args(); {
	case len(rest) >= 2 && rest[0] == "put":
		return s.putFiles(ctx, rest[1:], in, out)
	case len(rest) == 2 && rest[0] == "get":
		return s.writeBlob(ctx, rest[1], out)
	case len(rest) == 1 && rest[0] == "list":
		return s.listBlobs(ctx, out)
	case len(rest) >= 2 && rest[0] == "delete":
		return s.deleteBlobs(ctx, rest[1:], out)
	case len(rest) == 1 && rest[0] == "serve":
		return serve(ctx, s, *addr, out)
	}
	return errors.New(usage)
}

// shelf is a store with blobs.
type shelf struct {
	db    *brock.DB
	blobs *objects.Blobs
}

// openShelf opens the store in a directory, which it makes if it is not there.
func openShelf(dir string) (*shelf, error) {
	db, err := brock.Open(brock.DefaultOptions(dir))
	if err != nil {
		return nil, err
	}
	blobs, err := objects.OpenBlobs(db, "blobs", objects.Options{})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &shelf{db, blobs}, nil
}

// putFiles stores files; "-" is the standard input.
func (s *shelf) putFiles(ctx context.Context, names []string, in io.Reader, out io.Writer) error {
	for _, name := range names {
		info, err := s.putFile(ctx, name, in)
		if err != nil {
			return fmt.Errorf("put %s: %w", name, err)
		}
		fmt.Fprintln(out, info.Digest, info.Size)
	}
	return nil
}

func (s *shelf) putFile(ctx context.Context, name string, in io.Reader) (objects.Info, error) {
	if name == "-" {
		return s.blobs.Upload(ctx, in, objects.PutOptions{}, nil)
	}
	f, err := os.Open(name)
	if err != nil {
		return objects.Info{}, err
	}
	defer f.Close()
	// Upload reads the file once, in pieces, whatever its size.
	return s.blobs.Upload(ctx, f, objects.PutOptions{Type: mime.TypeByExtension(filepath.Ext(name))}, nil)
}

// writeBlob writes a content to out, and fails at its end if it is not what was stored.
func (s *shelf) writeBlob(ctx context.Context, digest string, out io.Writer) error {
	d, err := objects.ParseDigest(digest)
	if err != nil {
		return err
	}
	return s.db.ViewContext(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error {
		o, err := s.blobs.Open(txn, d)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, o.Checked())
		return err
	})
}

// listBlobs prints digest, size, references and content type of each blob.
func (s *shelf) listBlobs(ctx context.Context, out io.Writer) error {
	return s.db.ViewContext(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error {
		for info, err := range s.blobs.List(txn) {
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(out, info.Digest, info.Size, info.Refs, info.Type); err != nil {
				return err
			}
		}
		return nil
	})
}

// deleteBlobs takes a reference to each blob away, all in one transaction, and prints how many are
// left.
func (s *shelf) deleteBlobs(ctx context.Context, digests []string, out io.Writer) error {
	left := make([]uint64, len(digests))
	err := s.db.UpdateContext(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error {
		for i, digest := range digests {
			d, err := objects.ParseDigest(digest)
			if err != nil {
				return err
			}
			if left[i], err = s.blobs.Release(txn, d); err != nil {
				return fmt.Errorf("delete %s: %w", digest, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, digest := range digests {
		fmt.Fprintln(out, digest, left[i])
	}
	return nil
}
