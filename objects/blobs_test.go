package objects

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// TestBlobIsStoredOnce puts contents twice, and releases them.
func TestBlobIsStoredOnce(t *testing.T) {
	for _, size := range []int{0, 1, part, part + 1, 50 * part} {
		db := storetest.Open(t, brock.Options{})
		b := openBlobs(t, db)
		c := content(size, size)
		parts := (size + part - 1) / part
		put := func(want uint64, o PutOptions) Info {
			var info Info
			assert.OK(t, db.UpdateContext(t.Context(), brock.TxnOptions{MaxMemory: 4 * part}, func(txn *brock.Txn) (err error) {
				info, err = b.Put(txn, bytes.NewReader(c), o)
				return err
			}))
			assert.Equal(t, "references", info.Refs, want)
			assert.Equal(t, "digest", info.Digest, sumOf(c))
			assert.Equal(t, "key", string(info.Key), string(info.Digest[:]))
			checkAll(t, &b.space, parts)
			return info
		}
		first := put(1, PutOptions{Type: "first"})
		again := put(2, PutOptions{Type: "second"})
		assert.Equal(t, "type", again.Type, "first")
		assert.Equal(t, "time", again.Time, first.Time)
		info, err := b.Upload(t.Context(), bytes.NewReader(c), PutOptions{}, nil)
		assert.OK(t, err)
		assert.Equal(t, "references", info.Refs, 3)
		checkAll(t, &b.space, parts)
		assert.OK(t, db.Update(func(txn *brock.Txn) error {
			info, err := b.Retain(txn, sumOf(c))
			assert.Equal(t, "references", info.Refs, 4)
			return err
		}))
		for want := uint64(3); ; want-- {
			assert.OK(t, db.Update(func(txn *brock.Txn) error {
				left, err := b.Release(txn, sumOf(c))
				assert.Equal(t, "left", left, want)
				return err
			}))
			if want == 0 {
				break
			}
			checkAll(t, &b.space, parts)
		}
		checkAll(t, &b.space, 0)
		put(1, PutOptions{})
	}
}

// TestKnownBlobWritesNothing: a content of one part that is there already adds one write, that of
// the head, and one of more parts leaves nothing else in the journal.
func TestKnownBlobWritesNothing(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	b := openBlobs(t, db)
	c := content(1, 300*part)
	for _, c := range [][]byte{c, c[:part]} {
		for round := range 2 {
			before, entries := db.Metrics().Bytes, db.Metrics().Entries
			assert.OK(t, db.Update(func(txn *brock.Txn) error { return assert.ErrorOf(b.Put(txn, bytes.NewReader(c), PutOptions{})) }))
			if wrote := db.Metrics().Bytes - before; (wrote < 500) != (round == 1) {
				t.Errorf("round %d of %d bytes has written %d", round, len(c), wrote)
			}
			if round == 1 && len(c) == part {
				assert.Equal(t, "writes", db.Metrics().Entries-entries, 1)
			}
		}
	}
}

// TestReferencesHaveAnEnd: one more than can be counted is an error.
func TestReferencesHaveAnEnd(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	b := openBlobs(t, db)
	info := assert.Must(b.Upload(t.Context(), strings.NewReader("b"), PutOptions{}, nil))
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		h := assert.Must(b.findHead(txn, info.Key))
		h.refs = math.MaxUint64
		assert.OK(t, txn.In(b.heads).Set(info.Key, h.encodeHead()))
		assert.Error(t, "Retain", assert.ErrorOf(b.Retain(txn, info.Digest)), brock.ErrInvalid)
		assert.Error(t, "Put", assert.ErrorOf(b.Put(txn, strings.NewReader("b"), PutOptions{})), brock.ErrInvalid)
		return nil
	}))
}

// TestBlobsOfManyWriters puts and releases few contents on many goroutines. In the end each has as
// many references as were added and not taken away, and no part is left over.
func TestBlobsOfManyWriters(t *testing.T) {
	db := storetest.Open(t, brock.Options{Durability: brock.Buffered})
	b := openBlobs(t, db)
	contents := [][]byte{content(1, part/2), content(2, 3*part), content(3, 9*part)}
	var mu sync.Mutex
	refs, all := map[Digest]uint64{}, map[Digest][]byte{}
	for _, c := range contents {
		all[sumOf(c)] = c
	}
	rng, rounds := draw.Rand(t), 40
	var writers sync.WaitGroup
	for range 6 {
		r := rand.New(rand.NewPCG(rng.Uint64(), 1))
		writers.Go(func() {
			held := map[Digest]int{}
			for range rounds {
				c := contents[r.IntN(len(contents))]
				d, change, err := sumOf(c), 1, error(nil)
				switch r.IntN(3) {
				case 0:
					_, err = b.Upload(t.Context(), bytes.NewReader(c), PutOptions{}, nil)
				case 1:
					err = db.Update(func(txn *brock.Txn) error { return assert.ErrorOf(b.Put(txn, bytes.NewReader(c), PutOptions{})) })
				default:
					if held[d] == 0 {
						continue
					}
					change = -1
					err = db.Update(func(txn *brock.Txn) error { return assert.ErrorOf(b.Release(txn, d)) })
				}
				if err != nil {
					t.Error(err)
					return
				}
				held[d] += change
			}
			mu.Lock()
			defer mu.Unlock()
			for d, n := range held {
				refs[d] += uint64(n)
			}
		})
	}
	writers.Wait()
	left := 0
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		for d, n := range refs {
			if n == 0 {
				assert.Error(t, "Stat", assert.ErrorOf(b.Stat(txn, d)), brock.ErrKeyNotFound)
				continue
			}
			assert.Equal(t, "references", assert.Must(b.Stat(txn, d)).Refs, n)
			assert.SameText(t, "content", string(getBytes(t, &b.space, txn, d[:])), string(all[d]))
			left += (len(all[d]) + part - 1) / part
		}
		return nil
	}))
	checkAll(t, &b.space, left)
}

// TestUploadRunsWith: what an Upload is given commits with it, or neither does.
func TestUploadRunsWith(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	b := openBlobs(t, db)
	for _, size := range []int{10, 5 * part} {
		c := content(size, size)
		name := func(txn *brock.Txn, info Info) error { return txn.Set([]byte("name"), info.Key) }
		fails := func(txn *brock.Txn, info Info) error { assert.OK(t, name(txn, info)); return errTest }
		assert.Error(t, "Upload", assert.ErrorOf(b.Upload(t.Context(), bytes.NewReader(c), PutOptions{}, fails)), errTest)
		checkAll(t, &b.space, 0)
		assert.Equal(t, "named", assert.Must(db.Has([]byte("name"))), false)
		info := assert.Must(b.Upload(t.Context(), bytes.NewReader(c), PutOptions{}, name))
		assert.Equal(t, "named", string(assert.Must(db.Get([]byte("name")))), string(info.Digest[:]))
		assert.OK(t, db.Update(func(txn *brock.Txn) error {
			assert.OK(t, txn.Delete([]byte("name")))
			return assert.ErrorOf(b.Release(txn, info.Digest))
		}))
		checkAll(t, &b.space, 0)
	}
}
