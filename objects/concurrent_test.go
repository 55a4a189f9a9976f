package objects

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestReadAtOnManyGoroutines reads two objects of one transaction on many goroutines, while both
// are overwritten and the store compacts.
func TestReadAtOnManyGoroutines(t *testing.T) {
	for _, keys := range []brock.KeyProvider{nil, storetest.MasterKey(1)} {
		o := storetest.Place{FS: vfs.NewMem(), Dir: "/"}.TinyOptions("store", "")
		o.Keys = keys
		db := storetest.Open(t, o)
		s, c := openStore(t, db), content(1, 30*part+9)
		putBytes(t, s, "a", c)
		putBytes(t, s, "b", c)
		txn := db.NewTransaction(false)
		defer txn.Discard()
		shared, rng := assert.Must(s.Open(txn, []byte("a"))), draw.Rand(t)
		other := assert.Must(s.Open(txn, []byte("b")))
		var readers sync.WaitGroup
		for i := range 5 {
			r := rand.New(rand.NewPCG(rng.Uint64(), 2))
			readers.Go(func() {
				o := shared
				if i == 4 {
					o = other
				}
				p := make([]byte, 3*part)
				for range 100 {
					from, n := r.IntN(len(c)), 1+r.IntN(len(p))
					got, err := o.ReadAt(p[:n], int64(from))
					if err != nil && err != io.EOF {
						t.Error(err)
						return
					}
					if want := min(n, len(c)-from); got != want || !bytes.Equal(p[:got], c[from:from+want]) {
						t.Errorf("%d bytes from %d: %d, want %d", n, from, got, want)
					}
				}
			})
		}
		for i := range 10 {
			putBytes(t, s, "a", content(i, i*part))
			putBytes(t, s, "b", nil)
		}
		assert.OK(t, db.Compact(t.Context()))
		readers.Wait()
		checkAll(t, &s.space, 9)
	}
}

// TestUploadsOfOneKey: all uploads of one key succeed, one wins, and nothing is left of the others.
func TestUploadsOfOneKey(t *testing.T) {
	db := storetest.Open(t, brock.Options{Durability: brock.Buffered})
	s := openStore(t, db)
	var uploads sync.WaitGroup
	for i := range 8 {
		uploads.Go(func() {
			for round := range 5 {
				if _, err := s.Upload(t.Context(), []byte("a"), bytes.NewReader(content(i, (i+1+round)*part)), PutOptions{}, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	uploads.Wait()
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		c := getBytes(t, &s.space, txn, []byte("a"))
		checkAll(t, &s.space, len(c)/part)
		return nil
	}))
}

// TestUploadThatEnds: an upload whose context ends, whose reader fails or whose link is refused
// leaves nothing.
func TestUploadThatEnds(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	s := openStore(t, db)
	c := content(1, 9*part)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ending := io.MultiReader(bytes.NewReader(c), readerFunc(func([]byte) (int, error) { cancel(); return 0, io.EOF }))
	assert.Error(t, "Upload", assert.ErrorOf(s.Upload(ctx, []byte("a"), ending, PutOptions{}, nil)), context.Canceled)
	checkAll(t, &s.space, 0)
	assert.Error(t, "Upload", assert.ErrorOf(s.Upload(t.Context(), []byte("a"), failAfter(c, errTest), PutOptions{}, nil)), errTest)
	assert.Error(t, "Upload", assert.ErrorOf(s.Upload(t.Context(), []byte("a"), failAfter(nil, errTest), PutOptions{}, nil)), errTest)
	assert.Error(t, "Upload", assert.ErrorOf(s.Upload(t.Context(), []byte("a"), bytes.NewReader(c), PutOptions{Size: 5}, nil)), brock.ErrInvalid)
	// Once it is linked, the context ends in the transaction that links.
	ctx, cancel = context.WithCancel(t.Context())
	stop := func(*brock.Txn, Info) error { cancel(); return nil }
	assert.Error(t, "Upload", assert.ErrorOf(s.Upload(ctx, []byte("a"), bytes.NewReader(c), PutOptions{}, stop)), context.Canceled)
	checkAll(t, &s.space, 0)
}

// TestFollowerReads: a follower and a read-only store read objects, and write none.
func TestFollowerReads(t *testing.T) {
	mem := vfs.NewMem()
	o := storetest.Place{FS: mem, Dir: "/", Rename: mem.Rename}.TinyOptions("store", "")
	db := storetest.Open(t, o)
	assert.OK(t, db.Sync(t.Context()))
	f := storetest.OpenFollower(t, o)
	assert.Error(t, "Open", assert.ErrorOf(Open(f, "o", Options{})), brock.ErrKeyspaceNotFound)
	s := openStore(t, db)
	for i := range 3 {
		putBytes(t, s, "a", content(i, 3*part+i))
		assert.OK(t, db.Sync(t.Context()))
		assert.Must(f.Refresh(t.Context()))
		followed := openStore(t, f)
		assert.OK(t, f.View(func(txn *brock.Txn) error {
			assert.SameText(t, "a", string(getBytes(t, &followed.space, txn, []byte("a"))), string(content(i, 3*part+i)))
			return nil
		}))
		checkAll(t, &followed.space, 3+min(i, 1))
		assert.Error(t, "Upload", assert.ErrorOf(followed.Upload(t.Context(), []byte("b"), strings.NewReader("b"), PutOptions{}, nil)), brock.ErrReadOnly)
		assert.Error(t, "Upload", assert.ErrorOf(followed.Upload(t.Context(), []byte("b"), bytes.NewReader(content(1, 3*part)), PutOptions{}, nil)), brock.ErrReadOnly)
		assert.OK(t, assert.ErrorOf(followed.Sweep(t.Context())))
	}
}

// TestOldVersions: with the same Retention.Age of both keyspaces, objects are read as they were.
func TestOldVersions(t *testing.T) {
	db := storetest.Open(t, brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Age: 1 << 40}}})
	s := openStore(t, db)
	var versions []uint64
	for i := range 5 {
		putBytes(t, s, "a", content(i, i*part))
		versions = append(versions, db.Version())
		assert.OK(t, db.Compact(t.Context()))
	}
	for i, version := range versions {
		assert.OK(t, db.ViewContext(t.Context(), brock.TxnOptions{ReadAt: version}, func(txn *brock.Txn) error {
			assert.SameText(t, fmt.Sprint("version ", i), string(getBytes(t, &s.space, txn, []byte("a"))), string(content(i, i*part)))
			return nil
		}))
	}
}
