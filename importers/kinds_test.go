package importers

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pebble1 "github.com/cockroachdb/pebble"
	pebble2 "github.com/cockroachdb/pebble/v2"
	badger3 "github.com/dgraph-io/badger/v3"
	options3 "github.com/dgraph-io/badger/v3/options"
	"github.com/dgraph-io/badger/v4"
	options4 "github.com/dgraph-io/badger/v4/options"
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/comparer"
	"github.com/syndtr/goleveldb/leveldb/opt"

	"github.com/brockdb/brock"
)

// refusedKind imports a source of a kind that can't be read, and wants the error to say why.
func refusedKind(t *testing.T, peer Peer, source, why string) {
	t.Helper()
	store := filepath.Join(filepath.Dir(source), "store")
	_, err := Import(t.Context(), Options{Peer: peer, Source: source, Store: brock.Options{Dir: store}})
	if !errors.Is(err, ErrSource) || !strings.Contains(err.Error(), why) {
		t.Errorf("%s: %v", source, err)
	}
	if statError(store) == nil || statError(store+WorkSuffix) == nil {
		t.Errorf("%s: something is left", source)
	}
}

func fatal(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestOtherOrder: stores whose keys have another order, or whose merges are unknown, are refused.
func TestOtherOrder(t *testing.T) {
	dir := t.TempDir()
	level := filepath.Join(dir, "level")
	db, err := leveldb.OpenFile(level, &opt.Options{Comparer: other{comparer.DefaultComparer}})
	fatal(t, err)
	fatal(t, db.Put([]byte("k"), nil, nil), db.Close())
	refusedKind(t, LevelDB, level, "its keys have an order of their own, and only the order of bytes is known: mismatch: want 'leveldb.BytewiseComparator', got 'another order'")

	ordered := *pebble2.DefaultComparer
	ordered.Name = "another order"
	two := filepath.Join(dir, "pebble2")
	p2, err := pebble2.Open(two, &pebble2.Options{Logger: quiet{}, Comparer: &ordered})
	fatal(t, err)
	fatal(t, p2.Set([]byte("k"), nil, nil), p2.Close())
	refusedKind(t, Pebble, two, "another order")

	merger := *pebble1.DefaultMerger
	merger.Name = "another merge"
	oneDir := filepath.Join(dir, "pebble1")
	p1, err := pebble1.Open(oneDir, &pebble1.Options{Logger: quiet{}, Merger: &merger})
	fatal(t, err)
	fatal(t, p1.Merge([]byte("k"), []byte("v"), nil), p1.Close())
	refusedKind(t, Pebble, oneDir, "another merge")
}

// other is an order with another name.
type other struct{ comparer.Comparer }

func (other) Name() string { return "another order" }

// TestLogElsewhere: a store whose log is not named would seem to be an older one.
func TestLogElsewhere(t *testing.T) {
	dir := t.TempDir()
	two, oneDir := filepath.Join(dir, "pebble2"), filepath.Join(dir, "pebble1")
	p2, err := pebble2.Open(two, &pebble2.Options{Logger: quiet{}, WALDir: filepath.Join(dir, "log2")})
	fatal(t, err)
	fatal(t, p2.Set([]byte("k"), nil, nil), p2.Close())
	refusedKind(t, Pebble, two, "its log is in")
	p1, err := pebble1.Open(oneDir, &pebble1.Options{Logger: quiet{}, WALDir: filepath.Join(dir, "log1")})
	fatal(t, err)
	fatal(t, p1.Set([]byte("k"), nil, nil), p1.Close())
	refusedKind(t, Pebble, oneDir, "its log is in")

	source := filepath.Join(dir, "badger")
	end, err := writeBadger4(source, filepath.Join(dir, "values"), nil, badgerPairs)
	fatal(t, err)
	fatal(t, end())
	refusedKind(t, Badger4, source, "no value log")
}

// TestRangeKeys: Pebble's range keys are named as not kept, and its range deletes count.
func TestRangeKeys(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	db, err := pebble2.Open(source, &pebble2.Options{Logger: quiet{}})
	fatal(t, err)
	fatal(t,
		db.Set([]byte("a"), []byte("1"), nil),
		db.Set([]byte("b"), []byte("2"), nil),
		db.DeleteRange([]byte("b"), []byte("c"), nil),
		db.Merge([]byte("a"), []byte("2"), nil),
		db.RangeKeySet([]byte("a"), []byte("m"), nil, []byte("v"), nil),
		db.Close())
	o := Options{Peer: Pebble, Source: source, Store: brock.Options{Dir: filepath.Join(dir, "store")}}
	s := imports(t, o)
	if len(s.Lost) != 1 || !strings.Contains(s.Lost[0], "range keys") {
		t.Errorf("%+v", s)
	}
	r := new(record)
	r.set(0, "a", "12", 0, 0)
	wantNewest(t, o.Store.Dir, one(r))
}

// TestMagic: a program may have marked its stores of Badger 4 as its own.
func TestMagic(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	db, err := badger.Open(badger.DefaultOptions(source).WithLogger(nil).WithExternalMagic(513))
	fatal(t, err)
	fatal(t, db.Update(func(txn *badger.Txn) error { return txn.Set([]byte("k"), []byte("v")) }), db.Close())
	o := Options{Peer: Badger4, Source: source, Store: brock.Options{Dir: filepath.Join(dir, "store")}}
	imports(t, o)
	r := new(record)
	r.set(0, "k", "v", 0, 0)
	wantNewest(t, o.Store.Dir, one(r))
}

// TestManyVersions: versions of a managed store need no order in time, and may be far apart; those that
// Brock can't give are refused.
func TestManyVersions(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	r := new(record)
	for _, v := range []uint64{brock.MaxCommitAt, 7, 1 << 40, 8} {
		r.set(v, "k", "v", byte(v), 0)
		r.set(v, "l", "w", byte(v), 0)
	}
	end, err := writeBadger4(source, "", nil, r)
	fatal(t, err)
	fatal(t, end())
	o := Options{Peer: Badger4, Source: source, Store: brock.Options{Dir: filepath.Join(dir, "store")}, History: true}
	imports(t, o)
	wantHistory(t, o.Store.Dir, r)

	source = filepath.Join(dir, "beyond")
	r.set(brock.MaxCommitAt+1, "k", "v", 0, 0)
	end, err = writeBadger4(source, "", nil, r)
	fatal(t, err)
	fatal(t, end())
	o.Source, o.Store.Dir = source, filepath.Join(dir, "store2")
	if _, err := Import(t.Context(), o); !errors.Is(err, ErrRefused) {
		t.Errorf("a version that is too great: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 3 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestOldBadger: a store of one version of Badger is refused by the others, or read as it is.
func TestOldBadger(t *testing.T) {
	f := fixtureNamed(t, "badger2")
	dir := t.TempDir()
	source := f.closed(t, dir)
	before := hashFiles(t, source)
	refusedKind(t, Badger4, source, "version")
	unchanged(t, source, before)
}

// TestPebbleFormats: stores of each format that either version of Pebble writes are read.
func TestPebbleFormats(t *testing.T) {
	dir := t.TempDir()
	want := one(levelPairs)
	check := func(name string) {
		t.Helper()
		o := Options{Peer: Pebble, Source: filepath.Join(dir, name), Store: brock.Options{Dir: filepath.Join(dir, name+"-store")}}
		imports(t, o)
		wantNewest(t, o.Store.Dir, want)
	}
	write := func(set func(key, value []byte) error, del func(key []byte) error) (err error) {
		for _, p := range levelPairs.pairs {
			if p.deleted {
				err = errors.Join(err, del(p.key))
			} else {
				err = errors.Join(err, set(p.key, p.value))
			}
		}
		return err
	}
	for v := pebble1.FormatMostCompatible; v <= pebble1.FormatNewest; v++ {
		name := fmt.Sprintf("one-%d", v)
		db, err := pebble1.Open(filepath.Join(dir, name), &pebble1.Options{Logger: quiet{}, MemTableSize: 256 << 10, FormatMajorVersion: v})
		fatal(t, err)
		fatal(t, write(func(k, v []byte) error { return db.Set(k, v, pebble1.NoSync) }, func(k []byte) error { return db.Delete(k, pebble1.NoSync) }), db.Close())
		check(name)
	}
	for v := pebble2.FormatMinSupported; v <= pebble2.FormatNewest; v++ {
		name := fmt.Sprintf("two-%d", v)
		db, err := pebble2.Open(filepath.Join(dir, name), &pebble2.Options{Logger: quiet{}, MemTableSize: 256 << 10, FormatMajorVersion: v})
		fatal(t, err)
		fatal(t, write(func(k, v []byte) error { return db.Set(k, v, pebble2.NoSync) }, func(k []byte) error { return db.Delete(k, pebble2.NoSync) }), db.Close())
		check(name)
	}
}

// TestZstdAndKey: what Badger 3 and 4 compress by Zstandard and encrypt under several data keys is read.
func TestZstdAndKey(t *testing.T) {
	dir := t.TempDir()
	key := bytes.Repeat([]byte("key "), 8)
	r := plainPairs(32<<10, false)
	three, four := filepath.Join(dir, "badger3"), filepath.Join(dir, "badger4")
	db3, err := badger3.OpenManaged(badger3.DefaultOptions(three).WithLogger(nil).WithMemTableSize(1 << 20).WithValueThreshold(1024).WithIndexCacheSize(1 << 20).
		WithEncryptionKey(key).WithEncryptionKeyRotationDuration(time.Nanosecond).WithCompression(options3.ZSTD))
	fatal(t, err)
	db4, err := badger.OpenManaged(badger.DefaultOptions(four).WithLogger(nil).WithMemTableSize(1 << 20).WithValueThreshold(1024).WithIndexCacheSize(1 << 20).
		WithEncryptionKey(key).WithEncryptionKeyRotationDuration(time.Nanosecond).WithCompression(options4.ZSTD))
	fatal(t, err)
	for i, p := range r.pairs {
		txn3, txn4 := db3.NewTransactionAt(math.MaxUint64, true), db4.NewTransactionAt(math.MaxUint64, true)
		if p.deleted {
			fatal(t, txn3.Delete(p.key), txn4.Delete(p.key))
		} else {
			fatal(t, txn3.Set(p.key, p.value), txn4.Set(p.key, p.value))
		}
		fatal(t, txn3.CommitAt(uint64(i+1), nil), txn4.CommitAt(uint64(i+1), nil))
	}
	fatal(t, db3.Close(), db4.Close())
	for peer, source := range map[Peer]string{Badger3: three, Badger4: four} {
		o := Options{Peer: peer, Source: source, SourceKey: key, Store: brock.Options{Dir: source + "-store"}}
		imports(t, o)
		wantNewest(t, o.Store.Dir, one(r))
		o.SourceKey, o.Store.Dir = nil, source+"-none"
		if _, err := Import(t.Context(), o); !errors.Is(err, ErrSource) {
			t.Errorf("%s without its key: %v", peer, err)
		}
	}
}
