package objects

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// part is the length of parts in tests.
const part = minPart

// openStore opens the objects "o" of a store.
func openStore(t testing.TB, db *brock.DB) *Store {
	t.Helper()
	s, err := Open(db, "o", Options{PartSize: part})
	assert.OK(t, err)
	return s
}

// openBlobs opens the blobs "b" of a store.
func openBlobs(t testing.TB, db *brock.DB) *Blobs {
	t.Helper()
	b, err := OpenBlobs(db, "b", Options{PartSize: part})
	assert.OK(t, err)
	return b
}

// content returns n bytes that are always the same for an i.
func content(i, n int) []byte { return storetest.RandomBytes(i, n) }

// putBytes puts content in an Update of its own.
func putBytes(t testing.TB, s *Store, key string, content []byte) Info {
	t.Helper()
	var info Info
	assert.OK(t, s.db.Update(func(txn *brock.Txn) (err error) {
		info, err = s.Put(txn, []byte(key), bytes.NewReader(content), PutOptions{})
		return err
	}))
	return info
}

// getBytes reads an object; nil if there is none.
func getBytes(t testing.TB, s *space, txn *brock.Txn, key []byte) []byte {
	t.Helper()
	o, err := s.openObject(txn, key)
	if errors.Is(err, brock.ErrKeyNotFound) {
		return nil
	}
	assert.OK(t, err)
	all, err := io.ReadAll(o.Checked())
	assert.OK(t, err)
	return all
}

// countParts returns how many keys the keyspace of parts has.
func countParts(t testing.TB, s *space) (n int) {
	t.Helper()
	assert.OK(t, s.db.View(func(txn *brock.Txn) error {
		n = 0
		for _, err := range txn.In(s.parts).Items(brock.IteratorOptions{KeysOnly: true}) {
			if err != nil {
				return err
			}
			n++
		}
		return nil
	}))
	return n
}

// checkAll verifies, and wants this many keys in the keyspace of parts.
func checkAll(t testing.TB, s *space, parts int) {
	t.Helper()
	assert.OK(t, s.verifyAll(t.Context(), func(d *DamageError) { t.Errorf("%v, key %q", d, d.Key) }))
	assert.Equal(t, "keys of parts", countParts(t, s), parts)
}

// partsOf is how many parts contents have.
func partsOf[K comparable](contents map[K][]byte) (n int) {
	for _, c := range contents {
		n += (len(c) + part - 1) / part
	}
	return n
}

// problems returns the texts of what Verify reports, sorted.
func problems(t testing.TB, s *space) (list []string) {
	t.Helper()
	err := s.verifyAll(t.Context(), func(d *DamageError) { list = append(list, d.Reason) })
	if len(list) > 0 {
		assert.Error(t, "Verify", err, brock.ErrCorrupt)
	} else {
		assert.OK(t, err)
	}
	slices.Sort(list)
	return list
}

var errTest = errors.New("the reader fails")

// failAfter returns a reader of p, and then of err.
func failAfter(p []byte, err error) io.Reader {
	return io.MultiReader(bytes.NewReader(p), readerFunc(func([]byte) (int, error) { return 0, err }))
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// sumOf returns the digest of a content.
func sumOf(c []byte) Digest { return sha256.Sum256(c) }
