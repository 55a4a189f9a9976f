package store

import (
	"errors"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/draw"
)

var (
	keysFlag = flag.String("keys", "some", "which stores are encrypted, of tests that draw it: all, none, or some")
	every    = flag.Bool("every", false, "damage every page, look at every step, and not at some of them")
)

// openTest opens an empty store, in memory unless o.Dir says otherwise, and
// closes it when the test ends.
func openTest(t testing.TB, o brock.Options) *brock.DB {
	t.Helper()
	o.InMemory = o.Dir == ""
	db, err := brock.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

// drawnKeys returns Keys for the stores of a test, or nil: each run draws anew, so that
// both kinds are tested in the time of one. The log of the test says which it was.
func drawnKeys(t testing.TB) brock.KeyProvider {
	if *keysFlag == "none" || *keysFlag == "some" && draw.Coin(t) {
		return nil
	}
	t.Log("the stores are encrypted: -keys all")
	return masterKey(1)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// second is the error of a call that returns a value, too.
func second[T any](_ T, err error) error { return err }

// must2 returns v, and panics on an error.
func must2[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// wantErr checks that err is target.
func wantErr(t testing.TB, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: error %v, want %v", what, err, target)
	}
}

// b makes a key or value of a string.
func b(s string) []byte { return []byte(s) }

// set commits pairs written "key=value", or "key" for a delete.
func set(t testing.TB, db *brock.DB, pairs ...string) {
	t.Helper()
	must(t, db.Update(func(txn *brock.Txn) error { return put(txn, pairs...) }))
}

func put(txn *brock.Txn, pairs ...string) error {
	for _, p := range pairs {
		key, value, found := strings.Cut(p, "=")
		err := txn.Delete(b(key))
		if found {
			err = txn.Set(b(key), b(value))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// get returns the value of key, "-" if there is none, or the error's text.
func get(txn *brock.Txn, key string) string {
	it, err := txn.Get(b(key))
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

// show writes items as "key=value", "key!" for deletes.
func show(seq iter.Seq2[*brock.Item, error]) string {
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
			v = b(err.Error())
		}
		out = append(out, fmt.Sprintf("%s=%s", it.Key(), v))
	}
	return strings.Join(out, " ")
}

func wantEqual[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// clock is a clock that a test sets.
type clock struct{ ms atomic.Int64 }

func newClock(ms int64) *clock {
	c := new(clock)
	c.ms.Store(ms)
	return c
}

func (c *clock) now() time.Time      { return time.UnixMilli(c.ms.Load()) }
func (c *clock) add(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// incompressible returns n random bytes, different for each i.
func incompressible(i, n int) []byte {
	rng := rand.New(rand.NewPCG(uint64(i), 7))
	v := make([]byte, n)
	for j := range v {
		v[j] = byte(rng.Uint32())
	}
	return v
}

// Functions that goroutines of the store run: readahead of values, background work.
const (
	stackOfReader = "brock/internal/scan."
	stackOfWork   = "jobs.(*Pool).work"
)

// namesWhenFailed logs which of many cases it was, if the test has failed.
func namesWhenFailed(t *testing.T, what string, at *int) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s %d", what, *at)
		}
	})
}

// noGoroutines checks that no goroutine runs one of the functions. Other
// goroutines, as those of the runtime, don't count.
func noGoroutines(t *testing.T, functions ...string) {
	t.Helper()
	runs := func(stacks string) bool {
		return slices.ContainsFunc(functions, func(f string) bool { return strings.Contains(stacks, f) })
	}
	var stacks string
	for range 10000 {
		buf := make([]byte, 1<<20)
		stacks = string(buf[:runtime.Stack(buf, true)])
		if !runs(stacks) {
			return
		}
		runtime.Gosched() // a goroutine may have done its work and be about to end
	}
	t.Errorf("goroutines are left:\n%s", stacks)
}

func keyspace(t testing.TB, db *brock.DB, name string, o ...brock.KeyspaceOptions) *brock.Keyspace {
	t.Helper()
	ks, err := db.Keyspace(name, o...)
	must(t, err)
	return ks
}

func names(db *brock.DB) string {
	var list []string
	for ks := range db.Keyspaces() {
		list = append(list, ks.Name())
	}
	return strings.Join(list, " ")
}

// contents shows the default keyspace and all others as one transaction sees them.
func contents(t testing.TB, db *brock.DB) string {
	t.Helper()
	var out []string
	must(t, db.View(func(txn *brock.Txn) error {
		out = append(out, show(txn.All()))
		for ks := range db.Keyspaces() {
			out = append(out, ks.Name()+": "+show(txn.In(ks).All()))
		}
		return nil
	}))
	return strings.Join(out, "; ")
}
