package brock

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// separated is a store of n keys with values outside of the tree, which lie there
// as they were written, opened anew, so that none was read yet.
func separated(t *testing.T, order []int) *DB {
	t.Helper()
	o := Options{Dir: t.TempDir(), Durability: Buffered, KeyspaceDefaults: KeyspaceOptions{ValueThreshold: 64}}
	db, err := Open(o)
	must(t, err)
	must(t, db.Update(func(txn *Txn) error {
		for _, i := range order {
			if err := txn.Set(separatedKey(i), separatedValue(i)); err != nil {
				return err
			}
		}
		return nil
	}))
	must(t, db.Close())
	return openTest(t, o)
}

func separatedKey(i int) []byte   { return fmt.Appendf(nil, "key %06d", i) }
func separatedValue(i int) []byte { return b(strings.Repeat(fmt.Sprintf("%06d", i), 20)) }

// readsAhead reports whether the iterator holds entries ahead.
func readsAhead(it *Iterator) bool { return it.scan.ReadsAhead() }

// TestReadaheadComesAndGoes asks for values in phases: values are read ahead while it
// helps, and every key and value is right all along.
func TestReadaheadComesAndGoes(t *testing.T) {
	const n = 4000
	db := separated(t, rand.New(rand.NewPCG(1, 1)).Perm(n))
	for _, o := range []IteratorOptions{{}, {Reverse: true}, {KeysOnly: true}, {Prefetch: -1}, {Prefetch: 5}} {
		must(t, db.View(func(txn *Txn) error {
			it := txn.NewIterator(o)
			adapts := o.Prefetch == 0 && !o.KeysOnly
			i := 0
			for it.Rewind(); it.Valid(); it.Next() {
				at := i
				if o.Reverse {
					at = n - 1 - i
				}
				wantEqual(t, "key", string(it.Item().Key()), string(separatedKey(at)))
				ask := i < 100 || i > 500
				if ask {
					v, err := it.Item().Value()
					must(t, err)
					wantEqual(t, "value", string(v), string(separatedValue(at)))
				}
				switch i {
				case 50, 2800:
					wantEqual(t, fmt.Sprintf("%+v: reads ahead at %d", o, i), readsAhead(it), adapts || o.Prefetch > 0)
				case 400, 900:
					wantEqual(t, fmt.Sprintf("%+v: reads ahead at %d", o, i), readsAhead(it), o.Prefetch > 0)
				}
				if t.Failed() {
					break
				}
				i++
			}
			wantEqual(t, "items", i, n)
			return it.Close()
		}))
	}
	noGoroutines(t, stackOfReader)
}

// Values that lie in the order in which they are asked for need not be read ahead, and
// nobody counts a jump, in either direction.
func TestNoReadaheadForWhatLiesInOrder(t *testing.T) {
	const n = 4000
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	db := separated(t, order)
	if db.Metrics().Tree.MappedFiles == 0 {
		t.Skip("files are not mapped, so nobody knows what is in memory")
	}
	for _, o := range []IteratorOptions{{}, {Reverse: true}, {Prefetch: -1}, {Prefetch: 5}} {
		must(t, db.View(func(txn *Txn) error {
			it := txn.NewIterator(o)
			for it.Rewind(); it.Valid(); it.Next() {
				_, err := it.Item().Value()
				must(t, err)
				if readsAhead(it) != (o.Prefetch > 0) {
					t.Errorf("%+v: read ahead at %q", o, it.Item().Key())
				}
			}
			wantEqual(t, "bytes jumped to", it.scan.Close(), 0)
			return it.Close()
		}))
	}
}

// Reading ahead ends where values begin to follow each other, and few jumps begin none.
func TestReadaheadEndsWhereValuesLieInOrder(t *testing.T) {
	const n, mixed, block = 4000, 1000, 50
	order := rand.New(rand.NewPCG(3, 1)).Perm(mixed)
	for i := range n - mixed {
		order = append(order, mixed+i)
	}
	db := separated(t, order)
	for _, o := range []IteratorOptions{{}, {Prefetch: 5}} {
		must(t, db.View(func(txn *Txn) error {
			it := txn.NewIterator(o)
			i := 0
			for it.Rewind(); it.Valid(); it.Next() {
				v, err := it.Item().Value()
				must(t, err)
				wantEqual(t, "value", string(v), string(separatedValue(i)))
				switch i {
				case mixed - 100:
					wantEqual(t, "reads ahead where values jump", readsAhead(it), true)
				case n - 1:
					wantEqual(t, "reads ahead where they don't", readsAhead(it), o.Prefetch > 0)
				}
				i++
			}
			wantEqual(t, "items", i, n)
			return it.Close()
		}))
	}

	order = order[:0]
	for _, b := range rand.New(rand.NewPCG(3, 2)).Perm(n / block) {
		for i := range block {
			order = append(order, b*block+i)
		}
	}
	db = separated(t, order)
	must(t, db.View(func(txn *Txn) error {
		it := txn.NewIterator(IteratorOptions{})
		for it.Rewind(); it.Valid(); it.Next() {
			_, err := it.Item().Value()
			must(t, err)
			wantEqual(t, "reads ahead for few jumps", readsAhead(it), false)
		}
		return it.Close()
	}))
}

// What one iterator read ahead never shows in another that uses its memory again.
func TestReadaheadsAreUsedAgain(t *testing.T) {
	const n = 2000
	db := separated(t, rand.New(rand.NewPCG(1, 1)).Perm(n))
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for round := range 30 {
				must(t, db.View(func(txn *Txn) error {
					a := txn.NewIterator(IteratorOptions{})
					b := txn.NewIterator(IteratorOptions{Prefetch: 1 + (g*31+round*17)%100, Reverse: true})
					a.Rewind()
					b.Rewind()
					for i := range 60 + round {
						for at, it := range map[int]*Iterator{i: a, n - 1 - i: b} {
							v, err := it.Item().Value()
							if string(it.Item().Key()) != string(separatedKey(at)) || string(v) != string(separatedValue(at)) || err != nil {
								t.Errorf("item %d is %q with %q, %v", at, it.Item().Key(), v, err)
							}
							it.Next()
						}
					}
					if round%3 > 0 { // the transaction's end ends the others
						must(t, a.Close())
						must(t, b.Close())
					}
					return nil
				}))
			}
		})
	}
	wg.Wait()
	noGoroutines(t, stackOfReader)
}

// TestReadersEndWithTheirIterator leaves iterators and GetMany in the middle.
func TestReadersEndWithTheirIterator(t *testing.T) {
	db := separated(t, rand.New(rand.NewPCG(1, 1)).Perm(1000))
	for _, prefetch := range []int{0, 100} {
		must(t, db.View(func(txn *Txn) error {
			i := 0
			for it, err := range txn.Items(IteratorOptions{Prefetch: prefetch}) {
				must(t, err)
				if _, err := it.Value(); err != nil || i == 300 {
					return err
				}
				i++
			}
			return nil
		}))
	}
	noGoroutines(t, stackOfReader)
	txn := db.NewTransaction(false)
	var keys [][]byte
	for i := range 200 {
		keys = append(keys, separatedKey(i))
	}
	for it, err := range txn.GetMany(keys) {
		must(t, err)
		txn.Discard() // while values are read
		_, err = it.Value()
		wantErr(t, "value", err, ErrTxnDone)
		break
	}
	noGoroutines(t, stackOfReader)
}

// What may run in goroutines: scans, of which none does, and background work.
const (
	stackOfReader = "brock/internal/txn/scan."
	stackOfWork   = "jobs.(*Pool).work"
)

// noGoroutines checks that none is left that runs one of the functions. The
// runtime's own goroutines, of which there may be one or another, don't count.
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
		runtime.Gosched() // they have done their work and are about to end
	}
	t.Errorf("goroutines are left:\n%s", stacks)
}

func TestGetManyReadsAhead(t *testing.T) {
	const n = 1000
	db := separated(t, rand.New(rand.NewPCG(1, 1)).Perm(n))
	must(t, db.View(func(txn *Txn) error {
		var keys [][]byte
		for i := range n {
			at := i * 389 % (2 * n) // every other one is absent
			keys = append(keys, separatedKey(at))
		}
		var items []*Item
		for it, err := range txn.GetMany(keys) {
			must(t, err)
			items = append(items, it)
		}
		wantEqual(t, "items", len(items), n)
		for i, it := range items { // after the end, too
			at := i * 389 % (2 * n)
			wantEqual(t, "found", it != nil, at < n)
			if it == nil {
				continue
			}
			wantEqual(t, "key", string(it.Key()), string(separatedKey(at)))
			v, err := it.Value()
			must(t, err)
			wantEqual(t, "value", string(v), string(separatedValue(at)))
		}
		return nil
	}))
}
