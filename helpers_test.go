package brock

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/iterator"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantErr checks that err is target.
func wantErr(t testing.TB, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: error %v, want %v", what, err, target)
	}
}

// b is a string as a key or value.
func b(s string) []byte { return []byte(s) }

// set commits pairs written "key=value", or "key" for a delete.
func set(t testing.TB, db *DB, pairs ...string) {
	t.Helper()
	must(t, db.Update(func(txn *Txn) error { return put(txn, pairs...) }))
}

func put(txn *Txn, pairs ...string) error {
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

// get is the value of key, "-" if there is none, or the error.
func get(txn *Txn, key string) string {
	it, err := txn.Get(b(key))
	if err == ErrKeyNotFound {
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
func show(seq iter.Seq2[*Item, error]) string {
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

// counting counts the moves of a source.
type counting struct {
	iterator.Iterator
	moves int
}

func (c *counting) Next() bool { c.moves++; return c.Iterator.Next() }
func (c *counting) Prev() bool { c.moves++; return c.Iterator.Prev() }
func (c *counting) SkipGE(key []byte, v entry.Version) bool {
	c.moves++
	return c.Iterator.SkipGE(key, v)
}
func (c *counting) SkipLT(key []byte, v entry.Version) bool {
	c.moves++
	return c.Iterator.SkipLT(key, v)
}

// clock is a time that a test sets while a store works.
type clock struct{ ms atomic.Int64 }

func newClock(ms int64) *clock {
	c := new(clock)
	c.ms.Store(ms)
	return c
}

func (c *clock) now() time.Time      { return time.UnixMilli(c.ms.Load()) }
func (c *clock) add(d time.Duration) { c.ms.Add(d.Milliseconds()) }

func must2[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
