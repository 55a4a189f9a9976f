// Package encryption tests encrypted stores, their providers of master keys, and the change of
// keys.
package encryption

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// Rare bytes that keys, values and names of keyspaces begin with, so that they are found
// wherever they lie in clear.
const (
	rareKey   = "\xf3\x9ckEy~Q"
	rareValue = "\xe7\xa1vAl~Z"
	rareName  = "nAmE~\xce\xa9"
)

// inClear names the files of a store that hold one of the rare texts.
func inClear(t *testing.T, fs vfs.FS, dir string) (found []string) {
	t.Helper()
	names, err := fs.List(dir)
	assert.OK(t, err)
	for _, name := range names {
		f, err := fs.Open(filepath.Join(dir, name))
		if errors.Is(err, iofs.ErrNotExist) {
			continue // background work has removed it just now
		}
		assert.OK(t, err)
		p := make([]byte, storetest.ReadSize(t, f))
		_, err = f.ReadAt(p, 0)
		assert.OK(t, errors.Join(err, f.Close()))
		for _, rare := range []string{rareKey, rareValue, rareName} {
			if bytes.Contains(p, []byte(rare)) {
				found = append(found, fmt.Sprintf("%s has %q", name, rare))
			}
		}
	}
	return found
}

// secrets writes and deletes values of all sizes in two keyspaces, in all kinds of files: the
// round n of them.
func secrets(t *testing.T, db *brock.DB, n int) {
	t.Helper()
	ks := storetest.OpenKeyspace(t, db, rareName, brock.KeyspaceOptions{})
	value := func(i, size int) []byte { return append([]byte(rareValue), storetest.RandomBytes(i, size)...) }
	key := func(i int) []byte { return fmt.Appendf(nil, "%s%04d", rareKey, i) }
	for i := range 60 {
		assert.OK(t, db.Set(key(i+20*n), value(i+n, []int{0, 30, 500, 3000, 20000}[i%5])))
		assert.OK(t, ks.Set(key(i+10*n), value(i, 200*(i%3))))
	}
	assert.OK(t, db.Set(key(9000+n), value(n, 200_000))) // in pieces
	txn, err := db.Begin(t.Context(), brock.TxnOptions{Update: true, MaxMemory: 1000})
	assert.OK(t, err)
	for i := range 60 {
		assert.OK(t, txn.Set(key(1000+i), value(i*n, 10+40*(i%20))))
	}
	assert.OK(t, txn.Commit())
	assert.OK(t, db.DeleteRange(key(20*n), key(20*n+5)))
	assert.OK(t, db.Delete(key(20*n+7)))
}

// TestEncryptedStore: an encrypted store does what a plain one does, in each kind of file,
// and no file ever holds a key, a value or the name of a keyspace.
func TestEncryptedStore(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	plain := storetest.Open(t, brock.Options{})
	o := storetest.KeyedOptions(vfs.NewMem(), storetest.Dir)
	o.Keys = nil
	db, err := brock.Open(o)
	assert.OK(t, err)
	secrets(t, db, 1)
	assert.OK(t, db.Close())
	if found := inClear(t, o.FS, storetest.Dir); len(found) < 3 {
		t.Fatalf("the search finds only %q in a plain store", found)
	}
	check := func(what string) {
		t.Helper()
		if got, want := storetest.ShowContents(t, db), storetest.ShowContents(t, plain); got != want {
			t.Fatalf("%s: the encrypted store differs from the plain one:\n%.2000q\nwant\n%.2000q", what, got, want)
		}
		if found := inClear(t, mem, storetest.Dir); found != nil {
			t.Fatalf("%s: %v", what, found)
		}
		assert.OK(t, db.Verify(t.Context(), func(c *brock.CorruptionError) { t.Errorf("%s: %v", what, c) }))
	}
	db, err = brock.Open(storetest.KeyedOptions(mem, storetest.Dir))
	assert.OK(t, err)
	for round := range 4 {
		secrets(t, db, round)
		secrets(t, plain, round)
		check("written")
		killed := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
		switch round {
		case 0, 3:
			assert.OK(t, db.Close())
		default:
			assert.OK(t, db.Flush(t.Context()))
			check("flushed")
			assert.OK(t, db.Compact(t.Context()))
			assert.Must(db.Reclaim(t.Context()))
			check("compacted and collected")
			assert.OK(t, db.Close())
			mem = killed // so the files above are lost, and the journal is replayed
		}
		db, err = brock.Open(storetest.KeyedOptions(mem, storetest.Dir))
		assert.OK(t, err)
		check("opened again")
		assert.OK(t, db.Compact(t.Context()))
		assert.Must(db.Reclaim(t.Context()))
		check("compacted and collected")
	}
	copied := filepath.Join(filepath.Dir(storetest.Dir), "copy")
	assert.OK(t, db.Checkpoint(t.Context(), copied))
	assert.OK(t, db.Close())
	if found := inClear(t, mem, copied); found != nil {
		t.Fatalf("checkpoint: %v", found)
	}
	for _, o := range []brock.Options{storetest.KeyedOptions(mem, copied), storetest.KeyedOptions(mem, storetest.Dir)} {
		for _, o.Mode = range []brock.OpenMode{brock.ReadOnly, brock.Follow, brock.ReadWrite} {
			db, err = brock.Open(o)
			assert.OK(t, err)
			check(fmt.Sprintf("%s, mode %d", o.Dir, o.Mode))
			assert.OK(t, db.Close())
		}
	}
}

// TestErrKey: a store that is refused for its keys is left as it was, and so is a plain one
// that is opened with keys.
func TestErrKey(t *testing.T) {
	t.Parallel()
	encrypted := func(t *testing.T) *vfs.Mem {
		mem := vfs.NewMem()
		db, err := brock.Open(brock.Options{Dir: storetest.Dir, FS: mem, Keys: storetest.MasterKey(1)})
		assert.OK(t, err)
		storetest.Set(t, db, "a=1")
		return mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	}
	keyring := filepath.Join(storetest.Dir, "KEYS-000001")
	for name, c := range map[string]struct {
		prepare func(t *testing.T) *vfs.Mem
		keys    brock.KeyProvider
	}{
		"no keys":           {encrypted, nil},
		"another key":       {encrypted, storetest.MasterKey(2)},
		"keys for a plain":  {storetest.MakeKilledStore, storetest.MasterKey(1)},
		"a missing keyring": {func(t *testing.T) *vfs.Mem { m := encrypted(t); assert.OK(t, m.Remove(keyring)); return m }, storetest.MasterKey(1)},
		"the keyring of another store": {func(t *testing.T) *vfs.Mem {
			m, other := encrypted(t), encrypted(t)
			p := storetest.ReadFile(t, other, keyring)
			assert.OK(t, m.Remove(keyring))
			storetest.WriteFile(t, m, keyring, string(p))
			return m
		}, storetest.MasterKey(1)},
	} {
		for _, mode := range []brock.OpenMode{brock.ReadWrite, brock.ReadOnly, brock.Follow} {
			t.Run(fmt.Sprintf("%s, mode %d", name, mode), func(t *testing.T) {
				mem := c.prepare(t)
				before := storetest.OmitLock(storetest.ShowFiles(t, mem))
				db, err := brock.Open(brock.Options{Dir: storetest.Dir, FS: mem, Keys: c.keys, Mode: mode})
				if err == nil {
					db.Close()
				}
				assert.Error(t, "Open", err, brock.ErrKey)
				if after := storetest.OmitLock(storetest.ShowFiles(t, mem)); after != before {
					t.Errorf("the directory was changed from\n%s\nto\n%s", before, after)
				}
			})
		}
	}
	t.Run("a key of another length", func(t *testing.T) {
		mem := vfs.NewMem()
		_, err := brock.Open(brock.Options{Dir: storetest.Dir, FS: mem, Keys: brock.StaticKey(make([]byte, 31))})
		assert.Error(t, "Open", err, brock.ErrInvalid)
	})
}

// crashes calls fn, and returns what a crash before each call that changes files, and at the
// end, leaves in the ways that modes say.
func crashes(t *testing.T, mem *vfs.Mem, fn func(fs vfs.FS)) (left []*vfs.Mem) {
	var mu sync.Mutex
	take := func() {
		for mode := range vfs.Chaos + 1 {
			left = append(left, mem.CrashClone(vfs.CrashOptions{Mode: mode, Seed: uint64(len(left))}))
		}
	}
	fn(faultfs.New(mem, faultfs.Options{Before: func(op faultfs.Op) {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind&(faultfs.Changes|faultfs.Syncs) != 0 {
			take()
		}
	}}))
	mu.Lock()
	defer mu.Unlock()
	take()
	return left
}

// TestEncryptedCreationCrashes crashes before each file call of creating and of opening: the
// next Open makes the store, or finds it with what was durable.
func TestEncryptedCreationCrashes(t *testing.T) {
	t.Parallel()
	open := func(fs vfs.FS) *brock.DB {
		db, err := brock.Open(storetest.KeyedOptions(fs, storetest.Dir))
		assert.OK(t, err)
		return db
	}
	for i, mem := range crashes(t, vfs.NewMem(), func(fs vfs.FS) { assert.OK(t, open(fs).Close()) }) {
		if testing.Short() && i%3 != 0 {
			continue
		}
		db := open(mem)
		assert.Equal(t, "created", storetest.ShowContents(t, db), "")
		storetest.Set(t, db, "a=1")
		assert.OK(t, db.Close())
		if names := assert.Must(mem.List(storetest.Dir)); strings.Count(strings.Join(names, " "), "KEYS-") != 1 {
			t.Errorf("crash %d: %v", i, names)
		}
	}
	begun := vfs.NewMem()
	db := open(begun)
	secrets(t, db, 1)
	want := storetest.ShowContents(t, db)
	begun = begun.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	assert.OK(t, db.Close())
	for i, mem := range crashes(t, begun, func(fs vfs.FS) { assert.OK(t, open(fs).Close()) }) {
		if testing.Short() && i%7 != 0 {
			continue
		}
		db := open(mem)
		if got := storetest.ShowContents(t, db); got != want {
			t.Errorf("crash %d: %.500q", i, got)
		}
		assert.OK(t, db.Close())
	}
}

// TestCopiesOfAnEncryptedStore: two copies of a directory that both go on, from the same
// state and with the same numbers of files, never encrypt under one key and nonce (builds
// with the tag invariants watch), and a file of one is damage in the other.
func TestCopiesOfAnEncryptedStore(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	db, err := brock.Open(storetest.KeyedOptions(mem, storetest.Dir))
	assert.OK(t, err)
	secrets(t, db, 1)
	stores := [2]*vfs.Mem{mem.CrashClone(vfs.CrashOptions{Mode: vfs.All}), mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})}
	assert.OK(t, db.Close())
	for i, mem := range stores {
		db, err := brock.Open(storetest.KeyedOptions(mem, storetest.Dir))
		assert.OK(t, err)
		secrets(t, db, 2+i)
		assert.OK(t, db.Flush(t.Context()))
		secrets(t, db, 3+i)
		assert.OK(t, db.Close())
	}
	swapped := 0
	for _, name := range assert.Must(stores[0].List(storetest.Dir)) {
		path := filepath.Join(storetest.Dir, name)
		p, q := storetest.ReadFile(t, stores[0], path), []byte(nil)
		if _, err := stores[1].Stat(path); err == nil {
			q = storetest.ReadFile(t, stores[1], path)
		}
		if q == nil || bytes.Equal(p, q) || name == "SUPER" || strings.HasPrefix(name, "MANIFEST") {
			continue
		}
		swapped++
		mixed := stores[0].CrashClone(vfs.CrashOptions{Mode: vfs.All})
		assert.OK(t, mixed.Remove(path))
		storetest.WriteFile(t, mixed, path, string(q))
		db, err := brock.Open(storetest.KeyedOptions(mixed, storetest.Dir))
		if err == nil {
			err = db.Verify(t.Context(), nil)
			err = errors.Join(err, db.Close())
		}
		if !errors.Is(err, brock.ErrCorrupt) {
			t.Errorf("%s of the other copy: %v", name, err)
		}
	}
	if swapped < 2 {
		t.Errorf("only %d files were swapped", swapped)
	}
}

// TestVerifyReadsTheKeyring: one damaged copy in the keyring keeps no store from being opened,
// and Verify tells of it.
func TestVerifyReadsTheKeyring(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	db, err := brock.Open(storetest.KeyedOptions(mem, storetest.Dir))
	assert.OK(t, err)
	storetest.Set(t, db, "a=1")
	assert.OK(t, db.Close())
	storetest.EditFile(t, mem, filepath.Join(storetest.Dir, "KEYS-000001"), func(p []byte) { p[len(p)/2+60] ^= 1 })
	db, err = brock.Open(storetest.KeyedOptions(mem, storetest.Dir))
	assert.OK(t, err)
	defer db.Close()
	var found []string
	_ = db.Verify(t.Context(), func(c *brock.CorruptionError) { found = append(found, c.File) })
	assert.Equal(t, "damaged files", fmt.Sprint(found), "[KEYS-000001]")
	assert.Error(t, "Verify", db.Verify(t.Context(), nil), brock.ErrCorrupt)
}

// TestStrangersKeyrings: a file that only has the name of a keyring, or that is the keyring of
// another store, is not removed.
func TestStrangersKeyrings(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	first, zero := filepath.Join(storetest.Dir, "KEYS-000001"), filepath.Join(storetest.Dir, "KEYS-000000")
	storetest.WriteFile(t, mem, first, "a list of keys to buy")
	_, err := brock.Open(storetest.KeyedOptions(mem, storetest.Dir))
	assert.Error(t, "Open", err, brock.ErrCorrupt)
	assert.Equal(t, "the stranger", string(storetest.ReadFile(t, mem, first)), "a list of keys to buy")
	assert.OK(t, mem.Remove(first))
	storetest.WriteFile(t, mem, first, "BROCK") // as a crash leaves it
	for _, stranger := range []string{"a list of keys to buy", "BROCKKEY" + strings.Repeat("another store ", 1000)} {
		db, err := brock.Open(storetest.KeyedOptions(mem, storetest.Dir))
		assert.OK(t, errors.Join(err, db.Close()))
		storetest.WriteFile(t, mem, zero, stranger)
		db, err = brock.Open(storetest.KeyedOptions(mem, storetest.Dir))
		assert.OK(t, errors.Join(err, db.Close()))
		assert.Equal(t, "the stranger", string(storetest.ReadFile(t, mem, zero)), stranger)
		assert.OK(t, mem.Remove(zero))
	}
}

// panicky is a provider whose UnwrapKey panics.
type panicky struct{ brock.KeyProvider }

func (panicky) UnwrapKey(context.Context, []byte, []byte) ([]byte, error) { panic("no service") }

// TestEncryptedCreationFails has each file call of a creation fail: the next Open makes the
// store, whatever is left.
func TestEncryptedCreationFails(t *testing.T) {
	t.Parallel()
	failed := 0
	for nth := 1; nth < 40; nth++ {
		mem := vfs.NewMem()
		faulty := faultfs.New(mem, faultfs.Options{})
		faulty.Inject(faultfs.Fault{Kinds: faultfs.Changes | faultfs.Syncs, Nth: nth, Err: faultfs.ErrNoSpace})
		db, err := brock.Open(storetest.KeyedOptions(faulty, storetest.Dir))
		if err == nil {
			err = db.Close()
		} else {
			failed++
		}
		after, again := brock.Open(storetest.KeyedOptions(mem, storetest.Dir))
		if again != nil {
			t.Fatalf("call %d failed (%v), and then Open: %v", nth, err, again)
		}
		storetest.Set(t, after, "a=1")
		assert.OK(t, after.Close())
		if names := assert.Must(mem.List(storetest.Dir)); strings.Count(strings.Join(names, " "), "KEYS-") != 1 {
			t.Errorf("call %d: %v", nth, names)
		}
	}
	if failed < 8 {
		t.Errorf("only %d calls kept the store from being made", failed)
	}
}
