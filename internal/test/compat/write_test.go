package compat

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/vfs"
)

// now is the time at which fixtures are written, and at which they are read: what
// expires then expires in all of them alike.
var now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// options keep the store small and leave its files alone until a test asks. An encrypted one also keeps
// history for Watch.
func options(dir string, encrypted bool) brock.Options {
	o := brock.Options{
		Dir:         dir,
		Now:         func() time.Time { return now },
		Durability:  brock.Buffered,
		MemoryLimit: 4 << 20,
		Tuning:      brock.Tuning{MemtableSize: 64 << 10, SegmentSize: 64 << 10, RunFileSize: 64 << 10},
		Maintenance: brock.Maintenance{IdleAfter: time.Hour, NoClustering: true},
	}
	if encrypted {
		o.Keys = brock.StaticKey([]byte("32 bytes, and no secret to tell."))
		o.FeedRetention = brock.FeedRetention{Age: 100 * 365 * 24 * time.Hour}
	}
	return o
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// discarded is the version before which the keyspace "manual" has no history.
const discarded = 1020

// stores are the stores of a fixture.
var stores = []string{"closed", "killed", "collected", "encrypted"}

// writeFixture makes the fixture of this source in dir: for each of the stores its
// directory, and a listing of what it has. Killed is a copy of the files from before
// Close, with the last frame of the journal torn. Collected is a copy from the
// midst of a Reclaim: values have moved, and handles still lead to their old places.
// Encrypted has two data keys, and the history of its commits.
func writeFixture(t *testing.T, dir string) {
	t.Helper()
	writePlain(t, dir)
	writeEncrypted(t, dir)
}

func writePlain(t *testing.T, dir string) {
	t.Helper()
	path := func(store string) string { return filepath.Join(dir, store) }
	record := func(store string, db *brock.DB) {
		must(t, os.WriteFile(path(store)+".txt", []byte(list(t, db)), 0o600))
	}
	var copied atomic.Bool
	o := options(path("closed"), false)
	// The compaction that rewrites the handles waits while the files are copied.
	o.FS = faultfs.New(vfs.OS(), faultfs.Options{Before: func(op faultfs.Op) {
		if op.Kind != faultfs.Create || filepath.Ext(op.Path) != ".run" || copied.Load() {
			return
		}
		if maps, _ := filepath.Glob(filepath.Join(o.Dir, "*.map")); len(maps) > 0 {
			copied.Store(os.CopyFS(path("collected"), os.DirFS(o.Dir)) == nil)
		}
	}})
	db, err := brock.Open(o)
	must(t, err)
	fillFiles(t, db)
	record("collected", db)
	_, err = db.Reclaim(t.Context())
	must(t, err)
	if !copied.Load() {
		t.Fatal("Reclaim has moved no values")
	}
	fillJournal(t, db)
	must(t, db.Sync(t.Context()))
	record("killed", db)
	must(t, db.Set([]byte("last"), []byte("torn away in the killed store")))
	must(t, os.CopyFS(path("killed"), os.DirFS(o.Dir)))
	tear(t, path("killed"), "torn away")
	record("closed", db)

	m := db.Metrics().Tree
	for name, n := range map[string]int64{
		"flushes": m.Flushes, "compactions": m.Compactions, "collections": m.Collections,
		"spills": m.Spills, "entries in memory": m.MemtableEntries,
	} {
		if n == 0 {
			t.Errorf("the fixture has seen no %s", name)
		}
	}
	must(t, db.Close())
}

// writeEncrypted also writes the Position from which on the history is listed.
func writeEncrypted(t *testing.T, dir string) {
	t.Helper()
	store := filepath.Join(dir, "encrypted")
	db, err := brock.Open(options(store, true))
	must(t, err)
	must(t, db.Set([]byte("first"), nil))
	must(t, db.View(func(txn *brock.Txn) error {
		return os.WriteFile(store+".position", []byte(txn.Position().String()), 0o600)
	}))
	fillFiles(t, db)
	must(t, db.RotateKey(t.Context(), brock.RotateOptions{}))
	fillJournal(t, db)
	must(t, db.Sync(t.Context()))
	must(t, os.WriteFile(store+".txt", []byte(list(t, db)+listFeed(t, db, store)), 0o600))
	must(t, db.Close())
}

// tear makes zeros of everything from text on, in the segment that has it.
func tear(t *testing.T, dir, text string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	must(t, err)
	torn := 0
	for _, name := range files {
		content, err := os.ReadFile(name)
		must(t, err)
		at := bytes.Index(content, []byte(text))
		if at < 0 {
			continue
		}
		clear(content[at:])
		must(t, os.WriteFile(name, content, 0o600))
		torn++
	}
	if torn != 1 {
		t.Fatalf("%q is in %d files, want one", text, torn)
	}
}

// fillFiles writes every kind of record, and has most of them flushed.
func fillFiles(t *testing.T, db *brock.DB) {
	t.Helper()
	texts, err := db.Keyspace("texts", brock.KeyspaceOptions{Compression: brock.S2, ValueThreshold: 256})
	must(t, err)
	archive, err := db.Keyspace("archive", brock.KeyspaceOptions{Compression: brock.Zstd, TTL: 10 * 365 * 24 * time.Hour})
	must(t, err)
	history, err := db.Keyspace("history", brock.KeyspaceOptions{Versions: brock.Retention{Versions: 3}})
	must(t, err)
	dropped, err := db.Keyspace("dropped")
	must(t, err)
	must(t, dropped.Set([]byte("k"), []byte("v")))
	must(t, dropped.Drop(t.Context()))

	// The default keyspace: values in the tree and beside it, some overwritten,
	// some deleted, one range deleted.
	for round := range 2 {
		for i := range 60 {
			must(t, db.Set(fmt.Appendf(nil, "inline/%03d", i), fmt.Appendf(nil, "round %d, value %d", round, i)))
			if round == 0 || i%3 > 0 {
				must(t, db.Set(fmt.Appendf(nil, "large/%03d", i), noise(1000*round+i, 600+30*i)))
			}
		}
		must(t, db.Flush(t.Context()))
	}
	must(t, db.Update(func(txn *brock.Txn) error {
		text := bytes.Repeat([]byte("a sentence that compresses well; "), 100)
		return errors.Join(
			txn.SetEntry(brock.NewEntry([]byte("meta"), []byte("v")).WithMeta(77)),
			txn.SetEntry(brock.NewEntry([]byte("expires"), []byte("v")).WithExpiry(now.Add(24*time.Hour))),
			txn.SetEntry(brock.NewEntry([]byte("expired"), []byte("v")).WithExpiry(now.Add(-time.Hour))),
			txn.SetEntry(brock.NewEntry([]byte("expires/large"), noise(1, 5000)).WithTTL(time.Hour)),
			txn.SetEntry(brock.NewEntry([]byte("only latest"), []byte("v")).WithOnlyLatest()),
			txn.Set([]byte("empty"), nil),
			txn.Set([]byte{0}, []byte("a key that is no text")),
			txn.Set(bytes.Repeat([]byte{0xff}, 1000), []byte("a long key")),
			txn.In(texts).Set([]byte("compressed"), text),
			txn.In(texts).Set([]byte("noise"), noise(2, 4000)),
			txn.In(archive).Set([]byte("compressed"), text),
		)
	}))
	for i := range 5 {
		must(t, history.Set([]byte("k"), fmt.Appendf(nil, "version %d", i)))
	}
	must(t, history.Delete([]byte("k")))
	must(t, history.Set([]byte("k"), noise(3, 2000)))
	must(t, db.DeleteRange([]byte("inline/010"), []byte("inline/020")))
	must(t, db.Delete([]byte("inline/030")))
	must(t, db.Set(nil, []byte("of the empty key")))
	must(t, db.Update(func(txn *brock.Txn) error {
		return errors.Join(txn.SetVersioned([]byte("queue/"), []byte("1")), txn.SetVersioned([]byte("queue/"), noise(5, 1500)),
			txn.Apply(brock.OpAdd, []byte("counter"), []byte{1, 0, 0, 0, 0, 0, 0, 0}))
	}))

	loaded, err := db.Keyspace("loaded")
	must(t, err)
	l, err := loaded.NewLoader(t.Context(), brock.LoadOptions{Sorted: true})
	must(t, err)
	for i := range 50 {
		must(t, l.Set(fmt.Appendf(nil, "%03d", i), noise(i, 100*i)))
	}
	_, err = l.Finish()
	must(t, err)

	// Versions that are given, the second far above the first.
	manual, err := db.Keyspace("manual", brock.KeyspaceOptions{Versions: brock.Retention{Manual: true}})
	must(t, err)
	for _, far := range []uint64{1000, 1 << 40} {
		b := db.NewBatch().In(manual)
		for i := range uint64(5) {
			must(t, b.At(far+10*i))
			must(t, b.Set([]byte("k"), fmt.Append(nil, far, " + ", 10*i)))
			must(t, b.Set(fmt.Append(nil, far+i), noise(int(i), 700)))
		}
		_, err := b.Commit(t.Context(), brock.DefaultDurability)
		must(t, err)
		must(t, db.Flush(t.Context()))
	}
	must(t, db.AdvanceVersion(t.Context(), 1<<41))
	must(t, manual.SetDiscardVersion(discarded))
}

// fillJournal adds files of a spilled transaction, and then records that lie in
// the journal alone and have to be replayed.
func fillJournal(t *testing.T, db *brock.DB) {
	t.Helper()
	large := brock.TxnOptions{MaxMemory: 16 << 10}
	must(t, db.UpdateContext(t.Context(), large, func(txn *brock.Txn) error {
		for i := range 100 {
			if err := txn.Set(fmt.Appendf(nil, "spilled/%03d", i), noise(i, 200+5*i)); err != nil {
				return err
			}
		}
		return txn.DeleteRange([]byte("spilled/050"), []byte("spilled/055"))
	}))

	texts, err := db.Keyspace("texts")
	must(t, err)
	history, err := db.Keyspace("history")
	must(t, err)
	must(t, db.DeleteRange([]byte("inline/040"), []byte("inline/045")))
	must(t, db.Delete([]byte("large/002")))
	must(t, db.Set([]byte("large/003"), noise(4, 3000)))
	must(t, texts.Set([]byte("replayed"), bytes.Repeat([]byte("again "), 500)))
	must(t, history.Set([]byte("k"), []byte("replayed")))
	manual, err := db.Keyspace("manual")
	must(t, err)
	must(t, manual.UpdateContext(t.Context(), brock.TxnOptions{CommitAt: 1 << 42}, func(txn *brock.Txn) error {
		return errors.Join(txn.Delete([]byte("k")), txn.Set([]byte("replayed"), []byte("far above")))
	}))
	must(t, db.Update(func(txn *brock.Txn) error {
		return errors.Join(txn.Set([]byte("both"), []byte("1")), txn.In(history).Set([]byte("both"), []byte("2")))
	}))
}

// noise is n bytes that don't compress, the same for the same seed.
func noise(seed, n int) []byte {
	b := make([]byte, n)
	x := uint64(seed)*0x9e3779b97f4a7c15 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x >> 32)
	}
	return b
}
