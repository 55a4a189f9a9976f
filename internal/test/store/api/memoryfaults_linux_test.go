package api

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/base/invariant"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/process"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// faultStore is a store with values of all kinds, all of them read before.
type faultStore struct {
	db     *brock.DB
	fs     *storetest.FailingMaps
	cut    bool       // its files are too short
	held   *brock.Txn // keeps mapped
	mapped []byte     // a value in a mapping
}

// faultValue says where a value lies, and how.
type faultValue struct {
	keyspace, key string
	value         []byte
}

var faultValues = []faultValue{
	{"plain", "inline", bytes.Repeat([]byte("i"), 100)},
	{"plain", "separated", storetest.RandomBytes(1, 20_000)},
	{"whole", "page", storetest.RandomBytes(2, 3000)},
	{"whole", "pages", storetest.RandomBytes(3, 10_000)},
	{"packed", "compressed", bytes.Repeat([]byte("abcdefgh"), 2000)},
}

func openFaultStore(t testing.TB, copies bool) *faultStore {
	s := &faultStore{fs: storetest.NewFailingMaps()}
	db, err := brock.Open(brock.Options{CopyValues: copies, Dir: t.TempDir(), FS: s.fs, Durability: brock.Buffered, MemoryLimit: 4 << 20,
		KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: 1024, Versions: brock.Retention{Versions: 2}}, Maintenance: brock.Maintenance{IdleAfter: time.Hour}})
	assert.OK(t, err)
	s.db = db
	storetest.OpenKeyspace(t, db, "plain")
	storetest.OpenKeyspace(t, db, "whole", brock.KeyspaceOptions{ValueThreshold: -1})
	storetest.OpenKeyspace(t, db, "packed", brock.KeyspaceOptions{Compression: brock.S2, ValueThreshold: 1024})
	for range 2 { // so that there are older versions
		for _, v := range faultValues {
			assert.OK(t, db.Set([]byte(v.key), v.value)) // as in "plain"
			assert.OK(t, s.keyspace(t, v.keyspace).Set([]byte(v.key), v.value))
		}
	}
	assert.OK(t, db.Flush(t.Context()))
	if !s.sound(t) {
		t.Fatal("the store is not what was written")
	}
	s.held = db.NewTransaction(false)
	it, err := s.held.Get([]byte("separated"))
	assert.OK(t, err)
	s.mapped, err = it.Value()
	assert.OK(t, err)
	return s
}

func (s *faultStore) keyspace(t testing.TB, name string) *brock.Keyspace {
	ks, err := s.db.Keyspace(name)
	assert.OK(t, err)
	return ks
}

// sound reports whether the store works and has all that was written.
func (s *faultStore) sound(t testing.TB) bool {
	for _, v := range faultValues {
		ks, err := s.db.Keyspace(v.keyspace)
		if err != nil {
			return false
		}
		for _, get := range []func([]byte) ([]byte, error){ks.Get, s.db.Get} {
			if got, err := get([]byte(v.key)); err != nil || !bytes.Equal(got, v.value) {
				return false
			}
		}
	}
	return s.db.Set([]byte("other"), nil) == nil && s.db.Flush(t.Context()) == nil
}

// of returns receivers of a type that read the value v, and gives them up.
func (s *faultStore) of(t testing.TB, v faultValue, r reflect.Type) (list []any, done func()) {
	ks := s.keyspace(t, v.keyspace)
	read, update := s.db.NewTransaction(false).In(ks), s.db.NewTransaction(true).In(ks)
	w, bat := ks.NewWriter(t.Context()), s.db.NewBatch().In(ks)
	l := assert.Must(ks.NewLoader(t.Context(), brock.LoadOptions{Sorted: true, MaxMemory: 1}))
	snapshot := assert.Must(s.db.Snapshot())
	done = func() { snapshot.Close(); read.Discard(); update.Discard(); w.Close(); l.Abort() }
	item, err := read.Get([]byte(v.key))
	assert.OK(t, err)
	for _, o := range []brock.IteratorOptions{{Lower: []byte(v.key)}, {Lower: []byte(v.key), Prefetch: 4, AllVersions: true}} {
		it := read.NewIterator(o)
		it.Rewind()
		if r == reflect.TypeFor[*brock.Iterator]() {
			list = append(list, it)
		} else if r == reflect.TypeFor[*brock.Item]() {
			list = append(list, it.Item())
		}
	}
	for _, x := range []any{snapshot, s.db, ks, read, update, item, bat, w, l, brock.NewEntry(nil, nil)} {
		if reflect.TypeOf(x) == r {
			list = append(list, x)
		}
	}
	return list, done
}

// faultErrors are what a call may return: the damage, or what an earlier call has led to.
var faultErrors = []error{brock.ErrCorrupt, brock.ErrKeyNotFound, brock.ErrVersionMismatch, brock.ErrTxnDone, brock.ErrClosed,
	brock.ErrStopped, brock.ErrInvalid, brock.ErrReadOnly, brock.ErrKeyspaceNotFound, brock.ErrUnsupported, brock.ErrVersionGone}

// No public call ends the process, or returns wrong bytes, when nothing that is mapped
// can be read any more, be it in the store or what the caller passes in. The calls are
// made in a child process, which says what it is about to call.
func TestFaultsUnderEveryCall(t *testing.T) {
	t.Parallel()
	if invariant.Poisons {
		t.Skip("with brockdebug what is handed out is copied once more, without a guard")
	}
	process.RequireMappings(t)
	if !process.RunInChild(t) {
		return
	}
	s := openFaultStore(t, false)
	for i, v := range faultValues {
		if testing.Short() && i > 1 {
			break
		}
		for _, mapped := range []bool{false, true} {
			eachMethod(func(name string, r reflect.Type, m reflect.Method) {
				list, done := s.of(t, v, r)
				for i, receiver := range list {
					s.callUnderFault(t, fmt.Sprintf("%s %d of %s, passing mapped memory: %v", name, i, v.key, mapped), v, mapped, receiver, m)
				}
				done()
				if !s.sound(t) {
					s.held.Discard()
					s.db.Close()
					s = openFaultStore(t, false)
				}
			})
		}
	}
	s.held.Discard()
	assert.OK(t, s.db.Close())
}

func (s *faultStore) callUnderFault(t testing.TB, name string, v faultValue, mapped bool, receiver any, m reflect.Method) {
	c := everyCall{key: []byte(v.key), value: v.value, number: 3}
	if mapped {
		c.key, c.value = s.mapped[:16], s.mapped
	}
	want := v.value
	c.read = func(what string, got []byte) {
		if what == "Key" { // of an item, whose value comes next
			for _, of := range faultValues {
				if equal, _ := readGuarded(got, []byte(of.key)); equal {
					want = of.value
				}
			}
			return
		}
		// What was handed out before the fault can't be read, but is never other bytes.
		if equal, readable := readGuarded(got, want); readable && !equal && bytes.HasPrefix([]byte(what), []byte("Value")) && len(got) > 0 {
			t.Errorf("%s: %s is not the value", name, what)
		}
	}
	fmt.Println("call", name)
	if !s.cut {
		s.fs.Fail(t, true)
		defer s.fs.Fail(t, false)
	}
	for range 2 {
		errs := c.call(t, reflect.ValueOf(receiver), m)
		for _, err := range errs {
			if !slices.ContainsFunc(faultErrors, func(target error) bool { return errors.Is(err, target) }) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// The same for files that are cut: what is beyond their end can't be read at all.
func TestCutFilesUnderEveryCall(t *testing.T) {
	t.Parallel()
	if !process.RunInChild(t) {
		return
	}
	for _, v := range []faultValue{faultValues[1], faultValues[3]} {
		s := openFaultStore(t, false)
		lists := make(map[reflect.Type][]any)
		for _, r := range receivers {
			lists[r], _ = s.of(t, v, r)
		}
		dir := s.db.Options().Dir
		names, err := vfs.OS().List(dir)
		assert.OK(t, err)
		for _, name := range names {
			if kind := filepath.Ext(name); kind == ".run" || kind == ".val" || kind == ".log" {
				if err := os.Truncate(filepath.Join(dir, name), 4096); !errors.Is(err, fs.ErrNotExist) { // the store may remove files
					assert.OK(t, err)
				}
			}
		}
		s.cut = true
		for _, mapped := range []bool{false, true} {
			eachMethod(func(name string, r reflect.Type, m reflect.Method) {
				for i, receiver := range lists[r] {
					if m.Name != "Close" {
						s.callUnderFault(t, fmt.Sprintf("%s %d of %s in a cut file, passing mapped memory: %v", name, i, v.key, mapped), v, mapped, receiver, m)
					}
				}
			})
		}
		s.held.Discard()
		s.db.Close()
	}
}

// With CopyValues, what was handed out is the caller's own, and a leaked transaction
// keeps nothing.
func TestCopiedValuesOutliveTheDisk(t *testing.T) {
	t.Parallel()
	if !process.RunInChild(t) {
		return
	}
	s := openFaultStore(t, true)
	assert.OK(t, s.db.Set([]byte("memory"), []byte("m"))) // in a memtable
	var keys, values [][]byte
	func() { // is never discarded
		txn := s.db.NewTransaction(false)
		for ks := range s.db.Keyspaces() {
			for it, err := range txn.In(ks).Items(brock.IteratorOptions{Prefetch: 2}) {
				assert.OK(t, err)
				keys, values = append(keys, it.Key()), append(values, assert.Must(it.Value()))
				it = assert.Must(txn.In(ks).Get(it.Key()))
				values = append(values, assert.Must(it.Value()))
				assert.OK(t, it.ValueFunc(func(v []byte) error {
					s.fs.Fail(t, true)
					defer s.fs.Fail(t, false)
					assert.Equal(t, "in ValueFunc", string(v), string(values[len(values)-1]))
					return nil
				}))
			}
		}
	}()
	process.CollectGarbage(t, func() bool { return s.db.Metrics().Leaked == 1 })
	s.fs.Fail(t, true)
	assert.Equal(t, "pairs", len(keys), len(faultValues))
	for i, key := range keys {
		at := slices.IndexFunc(faultValues, func(v faultValue) bool { return v.key == string(key) })
		for _, v := range values[2*i:][:2] {
			if !bytes.Equal(v, faultValues[at].value) {
				t.Errorf("%s: other bytes", key)
			}
		}
	}
	s.fs.Fail(t, false)
	s.held.Discard()
	assert.OK(t, s.db.Close())
}

// A transaction larger than its memory fails, and nothing else, when its files can't be read in
// their mappings while it commits.
func TestFaultsUnderASpilledCommit(t *testing.T) {
	t.Parallel()
	process.RequireMappings(t)
	if !process.RunInChild(t) {
		return
	}
	for _, isolation := range []brock.Isolation{brock.Serializable, brock.SnapshotIsolation, brock.LastWriterWins} {
		files := storetest.NewFailingMaps()
		db, err := brock.Open(brock.Options{Dir: t.TempDir(), FS: files})
		assert.OK(t, err)
		txn, err := db.Begin(t.Context(), brock.TxnOptions{Update: true, MaxMemory: 4000, Isolation: isolation})
		assert.OK(t, err)
		for i := range 2000 {
			assert.OK(t, txn.Delete(fmt.Appendf(nil, "k%06d", i)))
		}
		files.Fail(t, true)
		if err := txn.Commit(); err != nil && !errors.Is(err, brock.ErrCorrupt) {
			t.Errorf("isolation %v: %v", isolation, err)
		}
		files.Fail(t, false)
		assert.OK(t, db.Set([]byte("k"), []byte("v")))
		assert.OK(t, db.Close())
	}
}
