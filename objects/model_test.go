package objects

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// modelKeys are few, so that objects are overwritten and deleted.
var modelKeys = []string{"a", "a/b", "a/c", "b", "\x00", "\xff\xff", strings.Repeat("k", 300)}

// modelSizes are at the borders of parts, and some beyond the memory of a transaction.
var modelSizes = []int{0, 1, part - 1, part, part + 1, 2*part - 1, 2 * part, 5*part + 7, 40 * part}

// TestStoreMatchesModel makes random transactions of random writes, some of which fail or are
// discarded, and compares all reads with a map.
func TestStoreMatchesModel(t *testing.T) {
	for _, keys := range []brock.KeyProvider{nil, storetest.MasterKey(1)} {
		t.Run(fmt.Sprint("encrypted ", keys != nil), func(t *testing.T) {
			t.Parallel()
			rounds := 60
			if testing.Short() {
				rounds = 20
			}
			o := storetest.Place{FS: vfs.NewMem(), Dir: "/"}.TinyOptions("store", "")
			o.Keys = keys
			o.KeyspaceDefaults.TTL = 1e6 // must not reach the parts
			db := storetest.Open(t, o)
			s, r, model := openStore(t, db), draw.Rand(t), map[string][]byte{}
			for round := range rounds {
				was, old := maps.Clone(model), db.NewTransaction(false)
				txn, err := db.Begin(t.Context(), brock.TxnOptions{Update: true, MaxMemory: part << r.IntN(7)})
				assert.OK(t, err)
				next := maps.Clone(model)
				if round == 0 {
					next["large"] = content(1, 100*part) // beyond the memory of any of these
					assert.OK(t, assert.ErrorOf(s.Put(txn, []byte("large"), bytes.NewReader(next["large"]), PutOptions{})))
				}
				for range 1 + r.IntN(5) {
					changeObject(t, r, s, txn, next)
				}
				if r.IntN(4) == 0 {
					compareObjects(t, r, s, txn, next)
				}
				if round > 0 && r.IntN(5) == 0 {
					txn.Discard()
				} else {
					assert.OK(t, txn.Commit())
					model = next
				}
				compareObjects(t, r, s, old, was)
				old.Discard()
				switch r.IntN(12) {
				case 0:
					assert.OK(t, db.Compact(t.Context()))
				case 1:
					assert.OK(t, db.Flush(t.Context()))
				case 2:
					key := modelKeys[r.IntN(len(modelKeys))]
					c := content(r.Int(), modelSizes[r.IntN(len(modelSizes))])
					_, err := s.Upload(t.Context(), []byte(key), bytes.NewReader(c), PutOptions{}, nil)
					assert.OK(t, err)
					model[key] = c
				}
				if round%20 == 19 {
					checkAll(t, &s.space, partsOf(model))
				}
			}
			assert.OK(t, db.View(func(txn *brock.Txn) error { compareObjects(t, r, s, txn, model); return nil }))
			if spills := db.Metrics().Tree.Spills; spills == 0 {
				t.Error("no transaction was too large for its memory")
			}
		})
	}
}

// changeObject makes one random write.
func changeObject(t *testing.T, r *rand.Rand, s *Store, txn *brock.Txn, model map[string][]byte) {
	key := modelKeys[r.IntN(len(modelKeys))]
	c := content(r.Int(), modelSizes[r.IntN(len(modelSizes))])
	var in io.Reader = bytes.NewReader(c)
	switch r.IntN(8) {
	case 0:
		assert.OK(t, s.Delete(txn, []byte(key)))
		delete(model, key)
		return
	case 1: // nothing of it may stay
		_, err := s.Put(txn, []byte(key), failAfter(c, errTest), PutOptions{})
		assert.Error(t, "Put", err, errTest)
		return
	case 2: // of an object that is read in the same transaction, perhaps the one that is overwritten
		from := modelKeys[r.IntN(len(modelKeys))]
		if model[from] == nil {
			return
		}
		o, err := s.Open(txn, []byte(from))
		assert.OK(t, err)
		in, c = o, model[from]
	case 3:
		in = iotest.OneByteReader(in)
	case 4:
		in = iotest.DataErrReader(in)
	case 5: // one that often returns nothing, but not too often in a row
		in = hesitantReader(in, maxEmptyReads-1)
	}
	info, err := s.Put(txn, []byte(key), in, PutOptions{Type: "t/" + fmt.Sprint(len(c)), Meta: c[:min(len(c), 5)]})
	assert.OK(t, err)
	assert.Equal(t, "size", info.Size, int64(len(c)))
	if c == nil {
		c = []byte{}
	}
	model[key] = c
}

// TestReadersOfAllKinds puts contents around the borders of parts from readers that return their
// bytes and their end in different ways.
func TestReadersOfAllKinds(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	s := openStore(t, db)
	for what, wrap := range map[string]func(io.Reader) io.Reader{
		"plain":                func(r io.Reader) io.Reader { return r },
		"byte by byte":         iotest.OneByteReader,
		"halves":               iotest.HalfReader,
		"end with the bytes":   iotest.DataErrReader,
		"nothing in between":   func(r io.Reader) io.Reader { return hesitantReader(r, maxEmptyReads-1) },
		"end only once":        func(r io.Reader) io.Reader { return endsOnce(iotest.DataErrReader(r)) },
		"end once, in its own": endsOnce,
	} {
		for _, size := range []int{0, 1, part - 1, part, part + 1, part + 2, 2*part - 1, 2 * part, 2*part + 1, 9 * part} {
			c := content(size, size)
			assert.OK(t, db.Update(func(txn *brock.Txn) error {
				return assert.ErrorOf(s.Put(txn, []byte("put"), wrap(bytes.NewReader(c)), PutOptions{Size: int64(size)}))
			}))
			_, err := s.Upload(t.Context(), []byte("upload"), wrap(bytes.NewReader(c)), PutOptions{Size: int64(size)}, nil)
			assert.OK(t, err)
			assert.OK(t, db.View(func(txn *brock.Txn) error {
				for _, key := range []string{"put", "upload"} {
					assert.SameText(t, fmt.Sprint(what, " ", size), string(getBytes(t, &s.space, txn, []byte(key))), string(c))
				}
				return nil
			}))
			checkAll(t, &s.space, 2*((size+part-1)/part))
		}
	}
}

// endsOnce returns a reader that must not be read again once it has ended.
func endsOnce(in io.Reader) io.Reader {
	ended := false
	return readerFunc(func(p []byte) (int, error) {
		if ended {
			return 0, errTest
		}
		n, err := in.Read(p)
		ended = err == io.EOF
		return n, err
	})
}

// hesitantReader returns nothing so often before each read.
func hesitantReader(in io.Reader, times int) io.Reader {
	left := times
	return readerFunc(func(p []byte) (int, error) {
		if left--; left >= 0 {
			return 0, nil
		}
		left = times
		return in.Read(p)
	})
}

// compareObjects reads everything in all ways.
func compareObjects(t *testing.T, r *rand.Rand, s *Store, txn *brock.Txn, model map[string][]byte) {
	t.Helper()
	var keys []string
	for info, err := range s.List(txn, nil) {
		assert.OK(t, err)
		keys = append(keys, string(info.Key))
	}
	if want := slices.Sorted(maps.Keys(model)); !slices.Equal(keys, want) {
		t.Fatalf("List yields %.20q, want %.20q", keys, want)
	}
	for _, key := range slices.Concat(modelKeys, []string{"large"}) {
		want, there := model[key]
		o, err := s.Open(txn, []byte(key))
		if !there {
			assert.Error(t, "Open", err, brock.ErrKeyNotFound)
			continue
		}
		assert.OK(t, err)
		assert.Equal(t, "size", o.Size(), int64(len(want)))
		switch r.IntN(4) {
		case 0:
			if err := iotest.TestReader(o, want); err != nil {
				t.Fatal(err)
			}
		case 1:
			got, err := io.ReadAll(o.Checked())
			assert.OK(t, err)
			assert.SameText(t, "Checked", string(got), string(want))
		case 2:
			from := int64(r.IntN(len(want) + 1))
			assert.Must(o.Seek(from, io.SeekStart))
			var to bytes.Buffer
			assert.Equal(t, "written", assert.Must(io.Copy(&to, o)), int64(len(want))-from)
			assert.SameText(t, "WriteTo", to.String(), string(want[from:]))
		default:
			compareBorders(t, o, want)
		}
	}
}

// compareBorders reads pieces that begin and end around the border of each part.
func compareBorders(t *testing.T, o *Object, want []byte) {
	t.Helper()
	for border := 0; border <= len(want)+part; border += part {
		for _, from := range []int{border - 1, border, border + 1} {
			for _, n := range []int{0, 1, 2, part - 1, part, part + 1, 2*part + 1} {
				if from < 0 {
					continue
				}
				p := make([]byte, n)
				got, err := o.ReadAt(p, int64(from))
				left := want[min(from, len(want)):]
				if wanted := min(n, len(left)); got != wanted || !bytes.Equal(p[:got], left[:wanted]) {
					t.Fatalf("ReadAt of %d bytes at %d of %d: %d bytes, want %d", n, from, len(want), got, wanted)
				}
				if atEnd := n > len(left) || len(left) == 0; atEnd != (err == io.EOF) || !atEnd && err != nil {
					t.Fatalf("ReadAt of %d bytes at %d of %d: %v", n, from, len(want), err)
				}
			}
		}
	}
}
