package badger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	genuine "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/ristretto/v2/z"

	"github.com/brockdb/brock/compat/badger/pb"
)

// describe returns all versions of a store as text.
func describe(t *testing.T, db *DB) string {
	t.Helper()
	var txn *Txn
	if db.opt.managedTxns {
		txn = db.NewTransactionAt(math.MaxUint64, false)
	} else {
		txn = db.NewTransaction(false)
	}
	defer txn.Discard()
	o := DefaultIteratorOptions
	o.AllVersions = true
	it := txn.NewIterator(o)
	defer it.Close()
	var b bytes.Buffer
	for it.Rewind(); it.Valid(); it.Next() {
		item := it.Item()
		value, err := item.ValueCopy(nil)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%q@%d meta %d until %d gone %v latest %v = %q\n", item.Key(), item.Version(), item.UserMeta(),
			item.ExpiresAt(), item.IsDeletedOrExpired(), item.DiscardEarlierVersions(), value)
	}
	if err := it.Err(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// fill makes commits of the versions 1 to count in a store that is not managed.
func fill(t *testing.T, db *DB, count int) {
	for i := range count {
		err := db.Update(func(txn *Txn) error {
			if err := txn.SetEntry(NewEntry(fmt.Appendf(nil, "k%d", i%7), make([]byte, i)).WithMeta(byte(i))); err != nil {
				return err
			}
			if i%5 == 0 {
				return txn.Delete(fmt.Appendf(nil, "k%d", (i+1)%7))
			}
			return txn.Set(fmt.Appendf(nil, "own%d", i), nil)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func backupOf(t *testing.T, db *DB, since uint64) ([]byte, uint64) {
	t.Helper()
	var b bytes.Buffer
	if db.opt.managedTxns {
		st := db.NewStreamAt(math.MaxUint64)
		st.SinceTs = since
		newest, err := st.Backup(&b, since)
		if err != nil {
			t.Fatal(err)
		}
		return b.Bytes(), newest
	}
	newest, err := db.Backup(&b, since)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), newest
}

// withOrderedMemory runs fn with that much memory for the sorting of a load.
func withOrderedMemory(n int64, fn func()) {
	defer func(old int64) { orderedMemory = old }(orderedMemory)
	orderedMemory = n
	fn()
}

// TestLoadKeepsVersions: a full backup and an increment make the same store, also if the pairs don't fit
// into memory.
func TestLoadKeepsVersions(t *testing.T) {
	source := openTest(t, false)
	fill(t, source, 60)
	first, newest := backupOf(t, source, 0)
	if newest != 60 {
		t.Fatal(newest)
	}
	fill(t, source, 30)
	second, newest := backupOf(t, source, newest)
	if newest != 90 {
		t.Fatal(newest)
	}
	whole, _ := backupOf(t, source, 0)
	for _, memory := range []int64{1, 3000, 1 << 30} {
		withOrderedMemory(memory, func() {
			one, two := openTest(t, false), openTest(t, false)
			load(t, one, whole)
			load(t, two, first)
			load(t, two, second)
			if one.store.Version() != 90 || two.store.Version() != 90 {
				t.Fatal(one.store.Version(), two.store.Version())
			}
			a, _ := backupOf(t, one, 0)
			if describe(t, one) != describe(t, mustLoad(t, a)) {
				t.Fatal("a copy of a copy differs")
			}
			newest := func(db *DB) string { return newestPairs(t, db) }
			if newest(one) != newest(source) || newest(two) != newest(source) {
				t.Fatalf("source:\n%s\none load:\n%s\ntwo:\n%s", newest(source), newest(one), newest(two))
			}
			fill(t, one, 5) // it goes on
			if one.store.Version() != 95 {
				t.Fatal(one.store.Version())
			}
			if left, _ := filepath.Glob(one.opt.Dir + "*"); len(left) != 1 {
				t.Fatal("left behind:", left)
			}
		})
	}
}

func load(t *testing.T, db *DB, stream []byte) {
	t.Helper()
	if err := db.Load(bytes.NewReader(stream), 16); err != nil {
		t.Fatal(err)
	}
}

func mustLoad(t *testing.T, stream []byte) *DB {
	db := openTest(t, false)
	load(t, db, stream)
	return db
}

// newestPairs returns what a plain iterator sees, with versions.
func newestPairs(t *testing.T, db *DB) string {
	var b bytes.Buffer
	err := db.View(func(txn *Txn) error {
		it := txn.NewIterator(DefaultIteratorOptions)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			value, err := it.Item().ValueCopy(nil)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%q@%d = %x\n", it.Item().Key(), it.Item().Version(), value)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestLoadLargeVersion loads versions with more pairs than a batch of several may have.
func TestLoadLargeVersion(t *testing.T) {
	db := openTest(t, false)
	loader := db.NewKVLoader(1)
	const count = 5000
	for i := range count {
		for _, version := range []uint64{20, 10, uint64(100 + i)} {
			kv := &pb.KV{Key: fmt.Appendf(nil, "%05d", i), Value: fmt.Appendf(nil, "%0100d", version), Version: version}
			if err := loader.Set(kv); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := loader.Finish(); err != nil {
		t.Fatal(err)
	}
	if err := loader.Finish(); err == nil || loader.Set(&pb.KV{}) == nil {
		t.Fatal("a finished loader goes on")
	}
	if db.store.Version() != 100+count-1 {
		t.Fatal(db.store.Version())
	}
	txn := db.NewTransaction(false)
	defer txn.Discard()
	for i := range count {
		it := txn.NewKeyIterator(fmt.Appendf(nil, "%05d", i), IteratorOptions{AllVersions: true})
		var versions []uint64
		for it.Rewind(); it.Valid(); it.Next() {
			versions = append(versions, it.Item().Version())
		}
		it.Close()
		if fmt.Sprint(versions) != fmt.Sprintf("[%d 20 10]", 100+i) {
			t.Fatalf("key %d: %v", i, versions)
		}
	}
}

// TestLoadIntoUsedStore: what is newer in the store stays, and the order of the rest.
func TestLoadIntoUsedStore(t *testing.T) {
	db := openTest(t, false)
	fill(t, db, 10) // versions 1 to 10, of which k0 has 1 and 8
	loader := db.NewKVLoader(1)
	for _, kv := range []*pb.KV{
		{Key: []byte("k0"), Value: []byte("hidden"), Version: 5},
		{Key: []byte("fresh"), Value: []byte("older"), Version: 3},
		{Key: []byte("fresh"), Value: []byte("newer"), Version: 4},
		{Key: []byte("k0"), Value: []byte("above"), Version: 11},
		{Key: []byte("late"), Value: []byte("twenty"), Version: 20},
	} {
		if err := loader.Set(kv); err != nil {
			t.Fatal(err)
		}
	}
	if err := loader.Finish(); err != nil {
		t.Fatal(err)
	}
	err := db.View(func(txn *Txn) error {
		for key, want := range map[string]string{"k0": "above", "fresh": "newer", "late": "twenty"} {
			item, err := txn.Get([]byte(key))
			if err != nil {
				return err
			}
			value, err := item.ValueCopy(nil)
			if err != nil || string(value) != want {
				t.Errorf("%s is %q, %v", key, value, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if db.store.Version() != 20 {
		t.Fatal(db.store.Version())
	}
}

// TestLoadAfterDrop: what was dropped can be loaded again, also after the next Open; not what was deleted.
func TestLoadAfterDrop(t *testing.T) {
	for _, drop := range []func(*DB) error{
		(*DB).DropAll,
		func(db *DB) error { return db.DropPrefix([]byte("x"), []byte("k")) },
		func(db *DB) error { return errors.Join(db.DropPrefix([]byte("k0")), db.DropPrefix([]byte("k"))) },
	} {
		opt := quiet(t.TempDir())
		db := openDB(t, opt)
		set(t, db, "k0=1 k00=2 k1=3 gone=4")
		var backup bytes.Buffer
		_, err := db.Backup(&backup, 0)
		check(t, err)
		check(t, db.Update(func(txn *Txn) error { return errors.Join(txn.Delete([]byte("k00")), txn.Delete([]byte("gone"))) }))
		check(t, drop(db))
		set(t, db, "k1=newer gone=here")
		check(t, db.Update(func(txn *Txn) error { return txn.Delete([]byte("gone")) }))
		check(t, db.Close())
		db = openDB(t, opt)
		check(t, db.Load(bytes.NewReader(backup.Bytes()), 1))
		wantText(t, "pairs", dump(t, db), "k0=1 k00=2 k1=newer")
	}
}

// TestLoadRefusesDamage cuts a backup at each length and flips bytes: no panic, and an error for each
// cut inside.
func TestLoadRefusesDamage(t *testing.T) {
	source := openTest(t, false)
	fill(t, source, 12)
	whole, _ := backupOf(t, source, 0)
	target := openTest(t, false)
	ends := map[int]bool{0: true, len(whole): true}
	for at := 0; at < len(whole); {
		ends[at] = true
		at += 8 + int(whole[at]) | int(whole[at+1])<<8
	}
	for size := range whole {
		err := target.Load(bytes.NewReader(whole[:size]), 1)
		if (err == nil) != ends[size] {
			t.Fatalf("%d of %d bytes: %v", size, len(whole), err)
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, ErrInvalidDump) {
			t.Fatalf("%d bytes: %v", size, err)
		}
	}
	for at := range whole {
		damaged := bytes.Clone(whole)
		damaged[at] ^= 0xff
		_ = target.Load(bytes.NewReader(damaged), 1) // an error or other pairs: the format has no checksum
	}
}

// TestLoadAfterKill: what a killed load has left beside the store is removed.
func TestLoadAfterKill(t *testing.T) {
	db := openTest(t, false)
	left := db.opt.Dir + ".load"
	if err := os.MkdirAll(filepath.Join(left, "rest"), 0o700); err != nil {
		t.Fatal(err)
	}
	source := openTest(t, false)
	fill(t, source, 10)
	whole, _ := backupOf(t, source, 0)
	withOrderedMemory(1, func() { load(t, db, whole) })
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	memory, err := Open(DefaultOptions("").WithInMemory(true).WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	withOrderedMemory(1, func() { load(t, memory, whole) })
	if newestPairs(t, memory) != newestPairs(t, source) {
		t.Fatal("the store in memory differs")
	}
}

// TestStreamWriterCopies copies stores of both modes, and compares all versions.
func TestStreamWriterCopies(t *testing.T) {
	for _, managed := range []bool{false, true} {
		source := openTest(t, managed)
		if managed {
			fillManaged(t, source, 3000)
		} else {
			fill(t, source, 50)
		}
		dir := t.TempDir()
		o := source.Opts().WithDir(dir).WithValueDir(dir)
		if err := source.StreamDB(o); err != nil {
			t.Fatal(err)
		}
		open := Open
		if managed {
			open = OpenManaged
		}
		target, err := open(o)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := newestPairs(t, target), newestPairs(t, source); got != want {
			t.Errorf("managed %v: source:\n%.2000s\ncopy:\n%.2000s", managed, want, got)
		}
		if err := target.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// batchOf returns a batch of pairs.
func batchOf(kvs ...*pb.KV) *z.Buffer {
	buf := z.NewBuffer(64, "test")
	for _, kv := range kvs {
		KVToBuffer(kv, buf)
	}
	return buf
}

func TestStreamWriterRules(t *testing.T) {
	for _, managed := range []bool{false, true} {
		db := openTest(t, managed)
		sw := db.NewStreamWriter()
		if err := sw.Prepare(); err != nil {
			t.Fatal(err)
		}
		a := &pb.KV{Key: []byte("a"), Value: []byte("1"), Version: 4, StreamId: 1}
		b := &pb.KV{Key: []byte("b"), Value: []byte("2"), Version: 2, StreamId: 2}
		done := &pb.KV{StreamId: 1, StreamDone: true}
		if err := sw.Write(batchOf(a, b, done)); err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a pair behind the end of its stream does not panic")
				}
			}()
			_ = sw.Write(batchOf(a))
		}()
		if err := sw.Write(batchOf(&pb.KV{StreamId: 9, StreamDone: true})); err != nil {
			t.Fatal("the end of an unknown stream:", err)
		}
		if err := sw.Flush(); err != nil {
			t.Fatal(err)
		}
		sw.Cancel()
		if sw.Write(batchOf(b)) == nil || sw.Flush() == nil {
			t.Fatal("a finished writer goes on")
		}
		if got := newestPairs(t, db); got != "\"a\"@4 = 31\n\"b\"@2 = 32\n" {
			t.Fatal(got)
		}
		if db.MaxVersion() != 4 {
			t.Fatal(db.MaxVersion())
		}
	}
}

// TestStreamWriterCancel: nothing of streams that have not ended stays, and the store works.
func TestStreamWriterCancel(t *testing.T) {
	for _, managed := range []bool{false, true} {
		db := openTest(t, managed)
		sw := db.NewStreamWriter()
		if err := sw.PrepareIncremental(); err != nil {
			t.Fatal(err)
		}
		if err := sw.Write(batchOf(&pb.KV{Key: []byte("a"), Version: 3, StreamId: 1})); err != nil {
			t.Fatal(err)
		}
		sw.Cancel()
		if got := newestPairs(t, db); got != "" {
			t.Fatal(got)
		}
		again := db.NewStreamWriter()
		again.Cancel()
	}
}

func TestStreamWriterOrder(t *testing.T) {
	db := openTest(t, true)
	sw := db.NewStreamWriter()
	defer sw.Cancel()
	err := sw.Write(batchOf(&pb.KV{Key: []byte("b"), Version: 1}, &pb.KV{Key: []byte("a"), Version: 1}))
	if err == nil || sw.Write(batchOf(&pb.KV{Key: []byte("c"), Version: 1})) == nil || sw.Flush() == nil {
		t.Fatal("keys that are not in order pass:", err)
	}
}

// TestBackupOfEmpty: an empty store has an empty backup.
func TestBackupOfEmpty(t *testing.T) {
	db := openTest(t, false)
	stream, newest := backupOf(t, db, 0)
	if len(stream) != 0 || newest != 0 {
		t.Fatal(len(stream), newest)
	}
	load(t, db, stream)
	if err := db.NewStream().Orchestrate(context.Background()); err == nil {
		t.Fatal("no Send")
	}
}

// TestBackupBesideWriters: a backup shows one state, though its goroutines read at different times and
// others commit meanwhile.
func TestBackupBesideWriters(t *testing.T) {
	db := openTest(t, false)
	const keys = 200
	write := func(round int) {
		err := db.Update(func(txn *Txn) error {
			for i := range keys {
				if err := txn.Set(fmt.Appendf(nil, "%04d", i), fmt.Appendf(nil, "%d", round)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	write(0)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for round := 1; round < 60; round++ { // each adds to every later backup
			select {
			case <-stop:
				return
			default:
				write(round)
			}
		}
	}()
	for range 3 {
		stream, newest := backupOf(t, db, 0)
		copied := mustLoad(t, stream)
		if copied.store.Version() != newest {
			t.Errorf("newest version %d, loaded %d", newest, copied.store.Version())
		}
		values := map[string]int{}
		err := copied.View(func(txn *Txn) error {
			it := txn.NewIterator(DefaultIteratorOptions)
			defer it.Close()
			for it.Rewind(); it.Valid(); it.Next() {
				value, err := it.Item().ValueCopy(nil)
				if err != nil {
					return err
				}
				values[string(value)]++
			}
			return nil
		})
		if err != nil || len(values) != 1 {
			t.Errorf("a backup of several states: %v, %v", values, err)
		}
	}
	close(stop)
	<-stopped
}

// BenchmarkBackup and BenchmarkLoad: 50,000 pairs of 128 bytes, here and on Badger.
func BenchmarkBackup(b *testing.B) {
	for _, s := range benchStores(b) {
		b.Run(s.name, func(b *testing.B) {
			for b.Loop() {
				if err := s.backup(io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	stores := benchStores(b)
	var stream bytes.Buffer
	if err := stores[0].backup(&stream); err != nil {
		b.Fatal(err)
	}
	b.Run("badger", func(b *testing.B) {
		for b.Loop() {
			db, err := genuine.Open(genuine.DefaultOptions(b.TempDir()).WithLogger(nil))
			if err == nil {
				err = errors.Join(db.Load(bytes.NewReader(stream.Bytes()), 16), db.Close())
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("brock", func(b *testing.B) {
		for b.Loop() {
			db, err := Open(DefaultOptions(b.TempDir()).WithLogger(nil))
			if err == nil {
				err = errors.Join(db.Load(bytes.NewReader(stream.Bytes()), 16), db.Close())
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// benchStore is a filled store.
type benchStore struct {
	name   string
	backup func(io.Writer) error
}

// benchStores returns one of Badger and one of this module with the same pairs.
func benchStores(b *testing.B) []benchStore {
	g, err := genuine.Open(genuine.DefaultOptions(b.TempDir()).WithLogger(nil))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { g.Close() })
	p, err := Open(DefaultOptions(b.TempDir()).WithLogger(nil))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.Close() })
	gw, pw := g.NewWriteBatch(), p.NewWriteBatch()
	for i := range 50_000 {
		key, value := fmt.Appendf(nil, "key%08d", i*7919%50_000), bytes.Repeat([]byte{byte(i)}, 117)
		if err := errors.Join(gw.Set(key, value), pw.Set(key, value)); err != nil {
			b.Fatal(err)
		}
	}
	if err := errors.Join(gw.Flush(), pw.Flush()); err != nil {
		b.Fatal(err)
	}
	return []benchStore{
		{"badger", func(w io.Writer) error { _, err := g.Backup(w, 0); return err }},
		{"brock", func(w io.Writer) error { _, err := p.Backup(w, 0); return err }},
	}
}
