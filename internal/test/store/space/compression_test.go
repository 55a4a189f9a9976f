package space

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/base/codec"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// squeezable returns n bytes that compress well, different for each i.
func squeezable(i, n int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "value %d, ", i), n/8+1)[:n]
}

// readEveryWay reads key with every call that returns values, and compares with want.
func readEveryWay(t *testing.T, db *brock.DB, key, want []byte) {
	t.Helper()
	same := func(how string, got []byte, err error) {
		t.Helper()
		if err != nil || !bytes.Equal(got, want) || got == nil {
			t.Fatalf("%s of %s: %d bytes, want %d: %v", how, key, len(got), len(want), err)
		}
	}
	got, err := db.Get(key)
	same("DB.Get", got, err)
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		readItem(t, assert.Must(txn.Get(key)), same)
		for it, err := range txn.GetMany([][]byte{key, key}) {
			assert.OK(t, err)
			readItem(t, it, same)
		}
		for _, prefetch := range []int{-1, 0, 4} {
			for it, err := range txn.Items(brock.IteratorOptions{Lower: key, Limit: 1, Prefetch: prefetch}) {
				assert.OK(t, err)
				readItem(t, it, same)
			}
		}
		for it, err := range txn.Items(brock.IteratorOptions{Prefix: key, KeysOnly: true}) {
			assert.OK(t, err)
			assert.Equal(t, "size by keys only", it.ValueSize(), int64(len(want)))
		}
		return nil
	}))
}

func readItem(t *testing.T, it *brock.Item, same func(how string, got []byte, err error)) {
	t.Helper()
	before := it.ValueSize()
	for range 2 { // the second read may use what the first one kept
		got, err := it.ValueCopy(nil)
		same("ValueCopy", got, err)
		room := make([]byte, 3, len(got)+10)
		copied, err := it.ValueCopy(room)
		same("ValueCopy to room", copied, err)
		if len(got) > 0 && &copied[0] != &room[0] {
			t.Error("ValueCopy left the room that there was")
		}
		assert.OK(t, it.ValueFunc(func(v []byte) error {
			same("ValueFunc", v, nil)
			return nil
		}))
		got, err = it.Value()
		same("Value", got, err)
		again, err := it.Value()
		same("Value again", again, err)
		same("Value, still", got, nil)
		assert.Equal(t, "size", it.ValueSize(), before)
	}
}

// Values come back as they were written: values of all sizes around the limits,
// compressible or not, written by every call and with every compression, and read
// by every call as pending writes, from memory, from files, after a flush has
// moved them, and after the options have changed.
func TestCompressedValuesComeBack(t *testing.T) {
	t.Parallel()
	sizes := []int{0, 1, 39, 40, 64, 511, 512, 1023, 1024, 5000, 65_535, 65_536, 100_000}
	if testing.Short() {
		sizes = []int{0, 40, 1024, 65_536}
	}
	options := []brock.KeyspaceOptions{
		{Compression: brock.S2}, {Compression: brock.Zstd}, {Compression: brock.S2, CompressAbove: 1, ValueThreshold: 1},
		{Compression: brock.Zstd, CompressAbove: 1, ValueThreshold: 1}, {Compression: brock.Zstd, ValueThreshold: -1}, {Compression: brock.NoCompression},
	}
	want := map[string][]byte{}
	dir := t.TempDir()
	mixed := storetest.Open(t, brock.Options{Dir: dir})
	for round, o := range options {
		assert.OK(t, mixed.Close())
		mixed = storetest.Open(t, brock.Options{Dir: dir, KeyspaceDefaults: o})
		txn := mixed.NewTransaction(true)
		batch := mixed.NewBatch()
		w := mixed.NewWriter(context.Background())
		for i, n := range sizes {
			for kind, v := range [][]byte{squeezable(i, n), storetest.RandomBytes(i, n)} {
				set := func(how string, set func(k, v []byte) error) {
					k := fmt.Sprintf("%d/%s/%d/%d", round, how, n, kind)
					want[k] = v
					assert.OK(t, set([]byte(k), bytes.Clone(v)))
				}
				set("txn", txn.Set)
				set("batch", batch.Set)
				set("writer", w.Set)
				set("direct", mixed.Set)
				set("expiring", func(k, v []byte) error { return txn.SetEntry(brock.NewEntry(k, v).WithTTL(1 << 50)) })
			}
		}
		for k, v := range want { // pending writes
			if strings.HasPrefix(k, fmt.Sprint(round, "/txn")) {
				readItem(t, assert.Must(txn.Get([]byte(k))), func(how string, got []byte, err error) {
					t.Helper()
					if err != nil || !bytes.Equal(got, v) {
						t.Fatalf("%s of pending %s: %d bytes, want %d: %v", how, k, len(got), len(v), err)
					}
				})
			}
		}
		n := 0
		for it, err := range txn.Prefix([]byte(fmt.Sprint(round, "/txn"))) {
			assert.OK(t, err)
			v, err := it.Value()
			if err != nil || !bytes.Equal(v, want[string(it.Key())]) || it.ValueSize() != int64(len(v)) {
				t.Fatalf("pending %s, by iteration: %d bytes, %v", it.Key(), len(v), err)
			}
			n++
		}
		assert.Equal(t, "pending items", n, 2*len(sizes))
		assert.OK(t, txn.Commit())
		assert.Must(batch.Commit(context.Background(), 0))
		assert.OK(t, w.Close())
		for k, v := range want {
			if strings.HasPrefix(k, fmt.Sprint(round)) {
				readEveryWay(t, mixed, []byte(k), v)
			}
		}
		if m := mixed.Metrics(); o.Compression == brock.NoCompression && m.CompressedFrom+m.CompressedTo != 0 ||
			o.Compression != brock.NoCompression && m.CompressedFrom < 3*m.CompressedTo {
			t.Errorf("round %d: %d bytes were compressed to %d", round, m.CompressedFrom, m.CompressedTo)
		}
	}
	readAll := func() {
		for k, v := range want {
			readEveryWay(t, mixed, []byte(k), v)
		}
	}
	assert.OK(t, mixed.Compact(context.Background()))
	readAll()
	// Half of the values die, so that Reclaim moves the others as they are stored.
	for k := range want {
		if len(k)%2 == 0 {
			assert.OK(t, mixed.Delete([]byte(k)))
			delete(want, k)
		}
	}
	assert.Must(mixed.Reclaim(context.Background()))
	readAll()
	assert.OK(t, mixed.Verify(context.Background(), nil))
	assert.OK(t, mixed.Close())
	mixed = storetest.Open(t, brock.Options{Dir: dir, Mode: brock.ReadOnly})
	readAll()
}

// KeysOnly and ValueSize read no segment, also for compressed values.
func TestSizesOfCompressedValuesAreKnown(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	o := brock.Options{Dir: "db", FS: mem, KeyspaceDefaults: brock.KeyspaceOptions{Compression: brock.Zstd}}
	db := storetest.Open(t, o)
	for i := range 50 {
		assert.OK(t, db.Set(fmt.Appendf(nil, "key%02d", i), squeezable(i, 2000+i)))
	}
	assert.OK(t, db.Compact(context.Background()))
	assert.OK(t, db.Close())
	overwriteSegments(t, mem, "db")
	db = storetest.Open(t, brock.Options{Dir: "db", FS: mem, Mode: brock.ReadOnly})
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		n := 0
		for it, err := range txn.Items(brock.IteratorOptions{KeysOnly: true}) {
			assert.OK(t, err)
			assert.Equal(t, "size", it.ValueSize(), int64(2000+n))
			n++
		}
		assert.Equal(t, "items", n, 50)
		_, err := assert.Must(txn.Get([]byte("key00"))).Value()
		assert.Error(t, "a damaged value", err, brock.ErrCorrupt)
		return nil
	}))
}

// overwriteSegments damages all records of all segments.
func overwriteSegments(t *testing.T, fs vfs.FS, dir string) {
	t.Helper()
	for _, name := range assert.Must(fs.List(dir)) {
		if ext := filepath.Ext(name); ext != ".val" && ext != ".log" {
			continue
		}
		f := assert.Must(fs.OpenReadWrite(filepath.Join(dir, name)))
		size := assert.Must(f.Size())
		junk := bytes.Repeat([]byte{0x5a}, int(max(size-4096, 0)))
		assert.Must(f.WriteAt(junk, 4096))
		assert.OK(t, f.Close())
	}
}

// A flipped bit of a compressed value makes reads of that value fail before
// anything is decoded. Verify finds it. Other values stay readable.
func TestDamagedCompressedValue(t *testing.T) {
	t.Parallel()
	for _, c := range []brock.Compression{brock.S2, brock.Zstd} {
		dir := t.TempDir()
		db := storetest.Open(t, brock.Options{Dir: dir, KeyspaceDefaults: brock.KeyspaceOptions{Compression: c}})
		value := append(storetest.RandomBytes(1, 600), make([]byte, 100_000)...)
		assert.OK(t, db.Set([]byte("key"), value))
		assert.OK(t, db.Set([]byte("other"), squeezable(1, 5000)))
		assert.OK(t, db.Compact(context.Background()))
		assert.OK(t, db.Close())
		files := assert.Must(filepath.Glob(filepath.Join(dir, "*.val")))
		assert.Equal(t, "value segments", len(files), 1)
		file := assert.Must(os.ReadFile(files[0]))
		kind := codec.S2
		if c == brock.Zstd {
			kind = codec.Zstd
		}
		stored := new(codec.Coder).Encode(nil, kind, value)
		at := bytes.Index(file, stored)
		if at < 0 {
			t.Fatal("the value is not in the file")
		}
		for bit := 0; bit < 8*len(stored); bit += 293 {
			damaged := bytes.Clone(file)
			damaged[at+bit/8] ^= 1 << (bit % 8)
			assert.OK(t, os.WriteFile(files[0], damaged, 0o600))
			db = storetest.Open(t, brock.Options{Dir: dir, Mode: brock.ReadOnly})
			_, err := db.Get([]byte("key"))
			assert.Error(t, "Get", err, brock.ErrCorrupt)
			assert.Error(t, "Verify", db.Verify(context.Background(), nil), brock.ErrCorrupt)
			readEveryWay(t, db, []byte("other"), squeezable(1, 5000))
			assert.OK(t, db.Close())
		}
	}
}
