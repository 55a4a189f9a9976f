// Package storetest makes stores for tests, fills them, copies them and shows what is in them.
package storetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/vfs"
)

// Flags of all tests that use this package.
var (
	KeysFlag = flag.String("keys", "some", "which stores are encrypted, of tests that draw it: all, none, or some")
	Every    = flag.Bool("every", false, "damage every page, look at every step, and not at some of them")
)

// Open opens an empty store, in memory unless o.Dir says otherwise, and
// closes it when the test ends.
func Open(t testing.TB, o brock.Options) *brock.DB {
	t.Helper()
	o.InMemory = o.Dir == ""
	db, err := brock.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { assert.OK(t, db.Close()) })
	return db
}

// Set commits pairs written "key=value", or "key" for a delete.
func Set(t testing.TB, db *brock.DB, pairs ...string) {
	t.Helper()
	assert.OK(t, db.Update(func(txn *brock.Txn) error { return Put(txn, pairs...) }))
}

// Put adds the pairs of Set to a transaction.
func Put(txn *brock.Txn, pairs ...string) error {
	for _, p := range pairs {
		key, value, found := strings.Cut(p, "=")
		err := txn.Delete([]byte(key))
		if found {
			err = txn.Set([]byte(key), []byte(value))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Get returns the value of key, "-" if there is none, or the error's text.
func Get(txn *brock.Txn, key string) string {
	it, err := txn.Get([]byte(key))
	if err == brock.ErrKeyNotFound {
		return "-"
	}
	if err != nil {
		return err.Error()
	}
	v, err := it.Value()
	if err != nil {
		return err.Error()
	}
	return string(v)
}

// ShowItems writes items as "key=value", "key!" for deletes.
func ShowItems(seq iter.Seq2[*brock.Item, error]) string {
	var out []string
	for it, err := range seq {
		if err != nil {
			out = append(out, err.Error())
			break
		}
		if it.Deleted() {
			out = append(out, string(it.Key())+"!")
			continue
		}
		v, err := it.Value()
		if err != nil {
			v = []byte(err.Error())
		}
		out = append(out, fmt.Sprintf("%s=%s", it.Key(), v))
	}
	return strings.Join(out, " ")
}

// RandomBytes returns n random bytes, different for each i.
func RandomBytes(i, n int) []byte {
	rng := rand.New(rand.NewPCG(uint64(i), 7))
	v := make([]byte, 0, n+8)
	for len(v) < n {
		v = binary.LittleEndian.AppendUint64(v, rng.Uint64())
	}
	return v[:n:n]
}

// OpenKeyspace returns a keyspace, which it makes if there is none of the name.
func OpenKeyspace(t testing.TB, db *brock.DB, name string, o ...brock.KeyspaceOptions) *brock.Keyspace {
	t.Helper()
	ks, err := db.Keyspace(name, o...)
	assert.OK(t, err)
	return ks
}

// ListKeyspaces lists the names of all keyspaces, with a space between them.
func ListKeyspaces(db *brock.DB) string {
	var list []string
	for ks := range db.Keyspaces() {
		list = append(list, ks.Name())
	}
	return strings.Join(list, " ")
}

// ShowContents shows the items of the default keyspace and of all others, as one transaction sees
// them.
func ShowContents(t testing.TB, db *brock.DB) string {
	t.Helper()
	var out []string
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		out = append(out, ShowItems(txn.All()))
		for ks := range db.Keyspaces() {
			out = append(out, ks.Name()+": "+ShowItems(txn.In(ks).All()))
		}
		return nil
	}))
	return strings.Join(out, "; ")
}

// MakeBackup makes a backup of db in memory.
func MakeBackup(t testing.TB, db *brock.DB, o brock.BackupOptions) ([]byte, *brock.BackupInfo) {
	t.Helper()
	var b bytes.Buffer
	info, err := db.Backup(t.Context(), &b, o)
	assert.OK(t, err)
	assert.Equal(t, "bytes of the stream", info.StreamBytes, int64(b.Len()))
	return b.Bytes(), info
}

// RestoreBackups makes a store of backups, compares it with want, and closes it at the end.
func RestoreBackups(t testing.TB, o brock.Options, want string, streams ...[]byte) *brock.DB {
	t.Helper()
	_, err := brock.Restore(t.Context(), bytes.NewReader(bytes.Join(streams, nil)), o)
	assert.OK(t, err)
	db := OpenExisting(t, o)
	assert.SameText(t, "restored", ShowRetained(t, db, 0), want)
	assert.OK(t, db.Verify(t.Context(), nil))
	return db
}

// ShowRetained shows everything that a store has retained up to a version: of all keyspaces
// each version of each key, with meta byte, expiry and value.
func ShowRetained(t testing.TB, db *brock.DB, at uint64) string {
	t.Helper()
	txn, err := db.Begin(t.Context(), brock.TxnOptions{ReadAt: at})
	assert.OK(t, err)
	defer txn.Discard()
	return ShowVersions(t, txn, slices.Collect(db.Keyspaces()))
}

// ShowVersions is ShowRetained for what a transaction sees of the default keyspace and of others.
func ShowVersions(t testing.TB, txn *brock.Txn, others []*brock.Keyspace) string {
	t.Helper()
	var all strings.Builder
	in := func(name string, txn *brock.Txn) {
		fmt.Fprintf(&all, "[%s]\n", name)
		for it, err := range txn.Items(brock.IteratorOptions{AllVersions: true}) {
			assert.OK(t, err)
			fmt.Fprintf(&all, "%q %d %d %d %v", it.Key(), it.Version(), it.Meta(), it.ExpiresAt().UnixMilli(), it.OnlyLatest())
			if it.Deleted() {
				all.WriteString(" deleted\n")
				continue
			}
			v, err := it.Value()
			assert.OK(t, err)
			fmt.Fprintf(&all, " %d bytes %08x\n", len(v), checksum.Plain(v))
		}
	}
	in("", txn)
	for _, ks := range others {
		in(ks.Name(), txn.In(ks))
	}
	return all.String()
}

// OpenExisting opens a store that there is, and closes it at the end.
func OpenExisting(t testing.TB, o brock.Options) *brock.DB {
	t.Helper()
	o.MustExist = true
	db, err := brock.Open(o)
	assert.OK(t, err)
	t.Cleanup(func() { assert.OK(t, db.Close()) })
	return db
}

// OpenFollower opens a follower of the store that o describes, and closes it at the end.
func OpenFollower(t testing.TB, o brock.Options) *brock.DB {
	t.Helper()
	o.Mode, o.MustExist = brock.Follow, true
	db, err := brock.Open(o)
	if errors.Is(err, brock.ErrUnsupported) {
		t.Skip(err)
	}
	assert.OK(t, err)
	t.Cleanup(func() { assert.OK(t, db.Close()) })
	return db
}

// DrawKey draws from few keys, some a prefix of others.
func DrawKey(r *rand.Rand) string {
	return strings.Repeat(string(rune('a'+r.IntN(4))), 1+r.IntN(3)) + string(rune('a'+r.IntN(3)))
}

// IsPinned reports whether a transaction of a store that is not empty is open, or
// what one has handed out.
func IsPinned(db *brock.DB) bool { return db.Metrics().Tree.PinnedVersion != 0 }

// ListKeys lists the keys that txn sees, with a space between them.
func ListKeys(txn *brock.Txn) string {
	var keys [][]byte
	for item, err := range txn.Items(brock.IteratorOptions{KeysOnly: true}) {
		if err != nil {
			return err.Error()
		}
		keys = append(keys, item.KeyCopy(nil))
	}
	return string(bytes.Join(keys, []byte(" ")))
}

// MakeKilledStore returns a file system with a store in Dir whose process has died.
func MakeKilledStore(t *testing.T) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	db, err := brock.Open(brock.Options{Dir: Dir, FS: mem})
	assert.OK(t, err)
	defer db.Close()
	Set(t, db, "a=1", "b=2")
	assert.OK(t, db.Flush(t.Context()))
	Set(t, db, "c=3")
	return mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
}
