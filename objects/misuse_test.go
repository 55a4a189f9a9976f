package objects

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// TestMisuseIsAnError makes calls that are not possible. Each returns an error, and the transaction
// can be used and committed with nothing in it.
func TestMisuseIsAnError(t *testing.T) {
	db, elsewhere := storetest.Open(t, brock.Options{}), storetest.Open(t, brock.Options{})
	s, b := openStore(t, db), openBlobs(t, db)
	other, blobs := openStore(t, elsewhere), openBlobs(t, elsewhere)
	putBytes(t, s, "a", content(1, 10))
	key, in := []byte("k"), func() io.Reader { return strings.NewReader("content") }
	put := func(s *Store, key []byte, r io.Reader, o PutOptions) func(txn *brock.Txn) error {
		return func(txn *brock.Txn) error { return assert.ErrorOf(s.Put(txn, key, r, o)) }
	}
	for what, c := range map[string]struct {
		want error
		call func(txn *brock.Txn) error
	}{
		"no reader":                 {brock.ErrInvalid, put(s, key, nil, PutOptions{})},
		"long key":                  {brock.ErrKeyTooLarge, put(s, make([]byte, brock.MaxKeySize+1), in(), PutOptions{})},
		"long type":                 {brock.ErrInvalid, put(s, key, in(), PutOptions{Type: strings.Repeat("t", MaxType+1)})},
		"long meta":                 {brock.ErrInvalid, put(s, key, in(), PutOptions{Meta: make([]byte, MaxMeta+1)})},
		"negative size":             {brock.ErrInvalid, put(s, key, in(), PutOptions{Size: -1})},
		"shorter than its size":     {brock.ErrInvalid, put(s, key, in(), PutOptions{Size: 8})},
		"longer than its size":      {brock.ErrInvalid, put(s, key, in(), PutOptions{Size: 6})},
		"endless, but for its size": {brock.ErrInvalid, put(s, key, readerFunc(func(p []byte) (int, error) { return len(p), nil }), PutOptions{Size: 5 * part})},
		"other store":               {brock.ErrInvalid, put(other, key, in(), PutOptions{})},
		"zero store":                {brock.ErrInvalid, put(new(Store), key, in(), PutOptions{})},
		"reader without an end":     {io.ErrNoProgress, put(s, key, readerFunc(func([]byte) (int, error) { return 0, nil }), PutOptions{})},
		"reader that says too much": {brock.ErrInvalid, put(s, key, readerFunc(func(p []byte) (int, error) { return len(p) + 1, nil }), PutOptions{})},
		"negative count":            {brock.ErrInvalid, put(s, key, readerFunc(func([]byte) (int, error) { return -1, io.EOF }), PutOptions{})},
		"failing reader":            {errTest, put(s, key, failAfter(content(1, 5*part), errTest), PutOptions{})},
		"open in other store":       {brock.ErrInvalid, func(txn *brock.Txn) error { return assert.ErrorOf(other.Open(txn, key)) }},
		"open in zero store":        {brock.ErrInvalid, func(txn *brock.Txn) error { return assert.ErrorOf(new(Store).Open(txn, key)) }},
		"open absent":               {brock.ErrKeyNotFound, func(txn *brock.Txn) error { return assert.ErrorOf(s.Open(txn, key)) }},
		"open empty key":            {brock.ErrKeyNotFound, func(txn *brock.Txn) error { return assert.ErrorOf(s.Open(txn, nil)) }},
		"stat absent":               {brock.ErrKeyNotFound, func(txn *brock.Txn) error { return assert.ErrorOf(s.Stat(txn, key)) }},
		"delete in other store":     {brock.ErrInvalid, func(txn *brock.Txn) error { return other.Delete(txn, key) }},
		"list other store":          {brock.ErrInvalid, func(txn *brock.Txn) error { return lastError(other.List(txn, nil)) }},
		"list zero store":           {brock.ErrInvalid, func(txn *brock.Txn) error { return lastError(new(Store).List(txn, nil)) }},
		"blob without reader":       {brock.ErrInvalid, func(txn *brock.Txn) error { return assert.ErrorOf(b.Put(txn, nil, PutOptions{})) }},
		"blob of other store":       {brock.ErrInvalid, func(txn *brock.Txn) error { return assert.ErrorOf(blobs.Put(txn, in(), PutOptions{})) }},
		"zero blobs":                {brock.ErrInvalid, func(txn *brock.Txn) error { return assert.ErrorOf(new(Blobs).Put(txn, in(), PutOptions{})) }},
		"retain absent":             {brock.ErrKeyNotFound, func(txn *brock.Txn) error { return assert.ErrorOf(b.Retain(txn, Digest{})) }},
		"release absent":            {brock.ErrKeyNotFound, func(txn *brock.Txn) error { return assert.ErrorOf(b.Release(txn, Digest{})) }},
		"release in zero blobs":     {brock.ErrInvalid, func(txn *brock.Txn) error { return assert.ErrorOf(new(Blobs).Release(txn, Digest{})) }},
	} {
		txn := db.NewTransaction(true)
		assert.Error(t, what, c.call(txn), c.want)
		assert.OK(t, txn.Commit())
		checkAll(t, &s.space, 1)
		checkAll(t, &b.space, 0)
	}
}

// lastError returns the error of the last element.
func lastError(seq func(func(Info, error) bool)) (last error) {
	for _, err := range seq {
		last = err
	}
	return last
}

// TestTransactionsThatCannot use transactions that have ended, are nil, zero or read-only.
func TestTransactionsThatCannot(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	s, b := openStore(t, db), openBlobs(t, db)
	putBytes(t, s, "a", content(1, 3*part))
	var blob Info
	assert.OK(t, db.Update(func(txn *brock.Txn) (err error) {
		blob, err = b.Put(txn, strings.NewReader("blob"), PutOptions{})
		return err
	}))
	ended := db.NewTransaction(true)
	open := assert.Must(s.Open(ended, []byte("a")))
	ended.Discard()
	canceled, cancel := context.WithCancel(t.Context())
	late := assert.Must(db.Begin(canceled, brock.TxnOptions{Update: true}))
	defer late.Discard()
	cancel()
	view := db.NewTransaction(false)
	defer view.Discard()
	for what, c := range map[string]struct {
		txn         *brock.Txn
		read, write error
	}{
		"ended":    {ended, brock.ErrTxnDone, brock.ErrTxnDone},
		"nil":      {nil, brock.ErrTxnDone, brock.ErrTxnDone},
		"zero":     {new(brock.Txn), brock.ErrTxnDone, brock.ErrTxnDone},
		"canceled": {late, context.Canceled, context.Canceled},
		"view":     {view, nil, brock.ErrReadOnly},
	} {
		touched := false
		in := readerFunc(func([]byte) (int, error) { touched = true; return 0, io.EOF })
		assert.Error(t, what+": Put", assert.ErrorOf(s.Put(c.txn, []byte("a"), in, PutOptions{})), c.write)
		assert.Error(t, what+": Put of a blob", assert.ErrorOf(b.Put(c.txn, in, PutOptions{})), c.write)
		assert.Equal(t, what+": the reader was read", touched, false)
		assert.Error(t, what+": Delete", s.Delete(c.txn, []byte("a")), c.write)
		assert.Error(t, what+": Retain", assert.ErrorOf(b.Retain(c.txn, blob.Digest)), c.write)
		assert.Error(t, what+": Release", assert.ErrorOf(b.Release(c.txn, blob.Digest)), c.write)
		assert.Error(t, what+": Open", assert.ErrorOf(s.Open(c.txn, []byte("a"))), c.read)
		assert.Error(t, what+": Stat", assert.ErrorOf(s.Stat(c.txn, []byte("a"))), c.read)
		assert.Error(t, what+": List", lastError(s.List(c.txn, nil)), c.read)
		assert.Error(t, what+": Open of a blob", assert.ErrorOf(b.Open(c.txn, blob.Digest)), c.read)
	}
	p := make([]byte, 10)
	assert.Error(t, "ReadAt", assert.ErrorOf(open.ReadAt(p, 0)), brock.ErrTxnDone)
	assert.Error(t, "Read", assert.ErrorOf(open.Read(p)), brock.ErrTxnDone)
	assert.Error(t, "WriteTo", assert.ErrorOf(open.WriteTo(io.Discard)), brock.ErrTxnDone)
}

// TestOpenRefuses opens objects with what is not possible.
func TestOpenRefuses(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	for what, o := range map[string]Options{
		"small parts":    {PartSize: minPart - 1},
		"large parts":    {PartSize: maxPart + 1},
		"negative parts": {PartSize: -1},
		"time to live":   {Keyspaces: brock.KeyspaceOptions{TTL: time.Hour}},
		"compression":    {Keyspaces: brock.KeyspaceOptions{Compression: 99}},
	} {
		assert.Error(t, what, assert.ErrorOf(Open(db, "x", o)), brock.ErrInvalid)
		assert.Error(t, what, assert.ErrorOf(OpenBlobs(db, "x", o)), brock.ErrInvalid)
	}
	assert.Error(t, "no store", assert.ErrorOf(Open(nil, "x", Options{})), brock.ErrInvalid)
	assert.Error(t, "no name", assert.ErrorOf(Open(db, "", Options{})), brock.ErrInvalid)
	assert.Error(t, "name of parts", assert.ErrorOf(OpenBlobs(db, "x.parts", Options{})), brock.ErrInvalid)
	assert.Error(t, "long name", assert.ErrorOf(Open(db, strings.Repeat("n", brock.MaxKeyspaceName-1), Options{})), brock.ErrInvalid)
	assert.Equal(t, "keyspaces", storetest.ListKeyspaces(db), "")
	storetest.OpenKeyspace(t, db, "ttl", brock.KeyspaceOptions{TTL: time.Hour})
	assert.Error(t, "keyspace with TTL", assert.ErrorOf(Open(db, "ttl", Options{})), brock.ErrInvalid)
	// Options that somebody has changed stay.
	assert.OK(t, assert.ErrorOf(Open(db, "kept", Options{})))
	ks := storetest.OpenKeyspace(t, db, "kept.parts")
	assert.OK(t, ks.SetOptions(brock.KeyspaceOptions{Compression: brock.Zstd}))
	assert.OK(t, assert.ErrorOf(Open(db, "kept", Options{Keyspaces: brock.KeyspaceOptions{Compression: brock.S2}})))
	assert.Equal(t, "compression", ks.Options().Compression, brock.Zstd)
	closed, err := brock.Open(brock.Options{InMemory: true})
	assert.OK(t, err)
	s := openStore(t, closed)
	assert.OK(t, closed.Close())
	assert.Error(t, "closed store", assert.ErrorOf(Open(closed, "y", Options{})), brock.ErrClosed)
	assert.Error(t, "Upload to a closed store", assert.ErrorOf(s.Upload(t.Context(), []byte("a"), strings.NewReader("b"), PutOptions{}, nil)), brock.ErrClosed)
	assert.Error(t, "Verify of a closed store", s.Verify(t.Context(), nil), brock.ErrClosed)
	assert.Error(t, "Sweep of a closed store", assert.ErrorOf(s.Sweep(t.Context())), brock.ErrClosed)
	assert.Error(t, "Verify without a store", new(Store).Verify(t.Context(), nil), brock.ErrInvalid)
	assert.Error(t, "Sweep without a store", assert.ErrorOf(new(Blobs).Sweep(t.Context())), brock.ErrInvalid)
	open := openStore(t, db)
	assert.Error(t, "Upload without a context", assert.ErrorOf(open.Upload(nil, []byte("a"), strings.NewReader("b"), PutOptions{}, nil)), brock.ErrInvalid) //nolint:staticcheck // misuse
	assert.Error(t, "Upload without a reader", assert.ErrorOf(open.Upload(t.Context(), []byte("a"), nil, PutOptions{}, nil)), brock.ErrInvalid)
}

// TestOffsetsOutside reads and seeks where nothing is.
func TestOffsetsOutside(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	s := openStore(t, db)
	putBytes(t, s, "a", content(1, 3*part))
	putBytes(t, s, "empty", nil)
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		o := assert.Must(s.Open(txn, []byte("a")))
		p := make([]byte, 10)
		assert.Error(t, "ReadAt -1", assert.ErrorOf(o.ReadAt(p, -1)), brock.ErrInvalid)
		assert.Error(t, "ReadAt the end", assert.ErrorOf(o.ReadAt(p, o.Size())), io.EOF)
		assert.Error(t, "ReadAt 2^63 - 1", assert.ErrorOf(o.ReadAt(p, math.MaxInt64)), io.EOF)
		assert.Must(o.Seek(5, io.SeekStart))
		for what, at := range map[string]func() (int64, error){
			"before the start": func() (int64, error) { return o.Seek(-6, io.SeekCurrent) },
			"before the end":   func() (int64, error) { return o.Seek(-o.Size()-1, io.SeekEnd) },
			"too far":          func() (int64, error) { return o.Seek(math.MaxInt64, io.SeekCurrent) },
			"whence":           func() (int64, error) { return o.Seek(0, 3) },
		} {
			assert.Error(t, what, assert.ErrorOf(at()), brock.ErrInvalid)
			assert.Equal(t, what, assert.Must(o.Seek(0, io.SeekCurrent)), 5)
		}
		assert.Equal(t, "beyond the end", assert.Must(o.Seek(math.MaxInt64, io.SeekStart)), math.MaxInt64)
		assert.Error(t, "Read beyond the end", assert.ErrorOf(o.Read(p)), io.EOF)
		assert.Equal(t, "written", assert.Must(o.WriteTo(io.Discard)), 0)
		empty := assert.Must(s.Open(txn, []byte("empty")))
		assert.Error(t, "Read of an empty object", assert.ErrorOf(empty.Read(p)), io.EOF)
		assert.Equal(t, "digest", empty.Info().Digest, sumOf(nil))
		// Writers that don't do what they should.
		assert.Must(o.Seek(0, io.SeekStart))
		assert.Error(t, "short write", assert.ErrorOf(o.WriteTo(writerFunc(func(p []byte) (int, error) { return len(p) / 2, nil }))), io.ErrShortWrite)
		assert.Equal(t, "offset", assert.Must(o.Seek(0, io.SeekCurrent)), part/2)
		assert.Error(t, "wrong count", assert.ErrorOf(o.WriteTo(writerFunc(func(p []byte) (int, error) { return len(p) + 1, nil }))), brock.ErrInvalid)
		assert.Error(t, "failing writer", assert.ErrorOf(o.WriteTo(writerFunc(func([]byte) (int, error) { return 0, errTest }))), errTest)
		return nil
	}))
}

// TestReadersThatDoMore puts from readers that panic, end the transaction or write the same key.
func TestReadersThatDoMore(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	s := openStore(t, db)
	c := content(1, 5*part)
	putBytes(t, s, "a", c)
	txn := db.NewTransaction(true)
	func() {
		defer func() { assert.Equal(t, "panic", recover(), any("test")) }()
		_, _ = s.Put(txn, []byte("a"), failAfter(c, nil), PutOptions{})
		_, _ = s.Put(txn, []byte("a"), io.MultiReader(bytes.NewReader(c), readerFunc(func([]byte) (int, error) { panic("test") })), PutOptions{})
	}()
	assert.OK(t, txn.Commit())
	checkAll(t, &s.space, 5)
	txn = db.NewTransaction(true)
	ending := io.MultiReader(bytes.NewReader(c), readerFunc(func([]byte) (int, error) { txn.Discard(); return 0, io.EOF }))
	assert.Error(t, "reader that ends the transaction", assert.ErrorOf(s.Put(txn, []byte("a"), ending, PutOptions{})), brock.ErrTxnDone)
	txn = db.NewTransaction(true)
	nested := io.MultiReader(bytes.NewReader(c), readerFunc(func([]byte) (int, error) {
		_, err := s.Put(txn, []byte("a"), bytes.NewReader(c), PutOptions{})
		return 0, errors.Join(err, io.EOF)
	}))
	assert.Error(t, "joined", assert.ErrorOf(s.Put(txn, []byte("a"), nested, PutOptions{})), io.EOF)
	nested = io.MultiReader(bytes.NewReader(c), readerFunc(func([]byte) (int, error) {
		assert.OK(t, assert.ErrorOf(s.Put(txn, []byte("a"), bytes.NewReader(c), PutOptions{})))
		return 0, io.EOF
	}))
	assert.OK(t, assert.ErrorOf(s.Put(txn, []byte("a"), nested, PutOptions{})))
	assert.OK(t, txn.Commit())
	checkAll(t, &s.space, 5)
}

// TestStaleObject reads an object that its own transaction has overwritten or deleted.
func TestStaleObject(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	s := openStore(t, db)
	putBytes(t, s, "a", content(1, 5*part))
	for what, change := range map[string]func(txn *brock.Txn) error{
		"overwritten": func(txn *brock.Txn) error {
			return assert.ErrorOf(s.Put(txn, []byte("a"), strings.NewReader("b"), PutOptions{}))
		},
		"deleted": func(txn *brock.Txn) error { return s.Delete(txn, []byte("a")) },
	} {
		txn := db.NewTransaction(true)
		o := assert.Must(s.Open(txn, []byte("a")))
		assert.OK(t, change(txn))
		assert.Error(t, what, assert.ErrorOf(io.ReadAll(o)), ErrStale)
		assert.Error(t, what, assert.ErrorOf(o.WriteTo(io.Discard)), ErrStale)
		txn.Discard()
	}
}

// TestLongestKey: a key of the greatest length is as any other.
func TestLongestKey(t *testing.T) {
	testKey(t, bytes.Repeat([]byte{0xff}, brock.MaxKeySize))
}

func TestEmptyKey(t *testing.T) { testKey(t, []byte{}) }

// testKey puts, uploads, lists, reads and deletes an object of this key.
func testKey(t *testing.T, key []byte) {
	db := storetest.Open(t, brock.Options{})
	s := openStore(t, db)
	c := content(1, 3*part)
	for range 2 {
		putBytes(t, s, string(key), c)
		assert.OK(t, assert.ErrorOf(s.Upload(t.Context(), key, bytes.NewReader(c), PutOptions{}, nil)))
		checkAll(t, &s.space, 3)
	}
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		for info, err := range s.List(txn, key[:len(key)/2]) {
			assert.OK(t, err)
			assert.Equal(t, "key", len(info.Key), len(key))
		}
		o := assert.Must(s.Open(txn, key))
		assert.OK(t, assert.ErrorOf(io.ReadAll(o.Checked())))
		assert.OK(t, s.Delete(txn, key))
		assert.Error(t, "ReadAt", assert.ErrorOf(o.ReadAt(make([]byte, 1), part)), ErrStale)
		return nil
	}))
	checkAll(t, &s.space, 0)
}
