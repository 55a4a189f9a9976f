package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/brockdb/brock"
)

// An everyCall calls all exported methods of the types that programs use, found by
// reflection: a method that is added is called without being listed here.
type everyCall struct {
	key, value []byte // what []byte parameters are given, by turns
	number     int    // what int and uint64 parameters are given
	zero       bool   // give all parameters their zero value
	read       func(what string, b []byte)
}

// receivers are the types whose methods are called.
var receivers = []reflect.Type{
	reflect.TypeFor[*brock.DB](), reflect.TypeFor[*brock.Keyspace](), reflect.TypeFor[*brock.Txn](), reflect.TypeFor[*brock.Item](),
	reflect.TypeFor[*brock.Iterator](), reflect.TypeFor[*brock.Batch](), reflect.TypeFor[*brock.Writer](), reflect.TypeFor[*brock.Loader](), reflect.TypeFor[*brock.Entry](),
	reflect.TypeFor[*brock.Metrics](), reflect.TypeFor[*brock.Histogram](), reflect.TypeFor[*brock.OptionError](), reflect.TypeFor[*brock.ConflictError](),
	reflect.TypeFor[*brock.BackupInfo](), reflect.TypeFor[*brock.Commit](), reflect.TypeFor[*brock.Change](), reflect.TypeFor[*brock.ChangeKind](), reflect.TypeFor[*brock.Position](),
	reflect.TypeFor[*brock.OpenMode](), reflect.TypeFor[*brock.Recovery](), reflect.TypeFor[*brock.Durability](), reflect.TypeFor[*brock.Compression](),
	reflect.TypeFor[*brock.Isolation](), reflect.TypeFor[*brock.Snapshot](), reflect.TypeFor[*brock.MetricKind](),
}

// argument is a value for the n-th parameter of a method.
func (c *everyCall) argument(t testing.TB, method reflect.Method, n int) reflect.Value {
	p := method.Type.In(n)
	if c.zero {
		return reflect.Zero(p)
	}
	bytesOf := c.key
	if n > 1 {
		bytesOf = c.value
	}
	switch reflect.Zero(p).Interface().(type) {
	case []byte:
		if method.Name == "KeyCopy" || method.Name == "ValueCopy" || method.Name == "AppendValue" && n == 1 { // it is written to
			return reflect.ValueOf(make([]byte, 0, 1<<16))
		}
		return reflect.ValueOf(bytesOf)
	case [][]byte:
		return reflect.ValueOf([][]byte{c.key, c.key})
	case *brock.Entry:
		return reflect.ValueOf(brock.NewEntry(c.key, c.value))
	case []*brock.Entry:
		return reflect.ValueOf([]*brock.Entry{brock.NewEntry(c.key, c.value)})
	case brock.IteratorOptions:
		return reflect.ValueOf(brock.IteratorOptions{Lower: c.key, Prefix: c.key, Prefetch: 4})
	case func(*brock.Txn) error:
		return reflect.ValueOf(func(*brock.Txn) error { return nil })
	case func(int, iter.Seq2[*brock.Item, error]) error:
		var mu sync.Mutex // parts come at the same time
		return reflect.ValueOf(func(_ int, items iter.Seq2[*brock.Item, error]) error {
			mu.Lock()
			defer mu.Unlock()
			return errors.Join(c.use(method.Name, items)...)
		})
	case func([]byte) error:
		return reflect.ValueOf(func(v []byte) error { c.read(method.Name, v); return nil })
	case func(*brock.CorruptionError):
		return reflect.ValueOf(func(*brock.CorruptionError) {})
	case func(string, string, string, brock.MetricKind, float64):
		return reflect.ValueOf(func(string, string, string, brock.MetricKind, float64) {})
	case func(string, string, string, *brock.Histogram):
		return reflect.ValueOf(func(string, string, string, *brock.Histogram) {})
	case string:
		if method.Name == "Checkpoint" { // it is made
			return reflect.ValueOf(filepath.Join(t.TempDir(), "new"))
		}
		return reflect.ValueOf("name")
	case int, uint64:
		return reflect.ValueOf(c.number).Convert(p)
	}
	if p == reflect.TypeFor[context.Context]() {
		return reflect.ValueOf(t.Context())
	}
	switch p.Kind() {
	case reflect.Struct, reflect.Bool, reflect.Slice, reflect.Int64, reflect.Uint8, reflect.Float64, reflect.Pointer, reflect.Interface: // options, and *Keyspace
		return reflect.Zero(p)
	}
	t.Fatalf("%s: no value for a parameter of type %v: add one", method.Name, p)
	return reflect.Value{}
}

// call calls a method, uses what it returns, and returns the errors met.
func (c *everyCall) call(t testing.TB, receiver reflect.Value, method reflect.Method) (errs []error) {
	in := []reflect.Value{receiver}
	for n := 1; n < method.Type.NumIn(); n++ {
		in = append(in, c.argument(t, method, n))
	}
	call := method.Func.Call
	if method.Type.IsVariadic() {
		call = method.Func.CallSlice
	}
	for _, out := range call(in) {
		errs = append(errs, c.use(method.Name, out.Interface())...)
	}
	return errs
}

// use does with the result of a method what a program does.
func (c *everyCall) use(what string, result any) (errs []error) {
	switch r := result.(type) {
	case error:
		errs = append(errs, r)
	case []byte:
		c.read(what, r)
	case *brock.Item:
		if r != nil {
			errs = c.useItem(r)
		}
	case iter.Seq2[*brock.Item, error]:
		for it, err := range r {
			errs = append(errs, c.use(what, it)...)
			if err != nil {
				errs = append(errs, err)
			}
		}
	case iter.Seq[*brock.Keyspace]:
		for range r {
		}
	case *brock.Iterator:
		for r.Rewind(); r.Valid(); r.Next() {
			errs = append(errs, c.useItem(r.Item())...)
		}
		if err := r.Close(); err != nil {
			errs = append(errs, err)
		}
	case *brock.Txn:
		r.Discard() // of nil, too
	case *brock.Loader:
		if r != nil {
			r.Abort()
		}
	case *brock.Writer:
		if err := r.Close(); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func (c *everyCall) useItem(it *brock.Item) (errs []error) {
	c.read("Key", it.Key())
	v, err := it.ValueCopy(nil)
	if err == nil {
		c.read("ValueCopy", v)
		v, err = it.Value()
	}
	if err == nil {
		c.read("Value", v)
		err = it.ValueFunc(func(v []byte) error { c.read("ValueFunc", v); return nil })
	}
	if err != nil {
		errs = append(errs, err)
	}
	return errs
}

// readGuarded reads b, which may lie in a mapping that can't be read, and reports
// whether it equals want.
func readGuarded(b, want []byte) (equal, readable bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { _ = recover() }()
	equal = bytes.Equal(b, want)
	return equal, true
}

// eachMethod calls fn for every method of every receiver type.
func eachMethod(fn func(name string, of reflect.Type, m reflect.Method)) {
	for _, r := range receivers {
		for i := range r.NumMethod() {
			m := r.Method(i)
			fn(fmt.Sprintf("%s.%s", r.Elem().Name(), m.Name), r, m)
		}
	}
}
