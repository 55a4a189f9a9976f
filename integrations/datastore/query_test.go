package brockds

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	ds "github.com/ipfs/go-datastore"
	dsq "github.com/ipfs/go-datastore/query"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
)

// TestQueriesAsNaive compares random queries with what go-datastore's plain functions make of all
// entries: of a Datastore, and of a transaction with writes of its own.
func TestQueriesAsNaive(t *testing.T) {
	rng := draw.Rand(t)
	d := open(t, brock.Options{})
	all := map[string][]byte{}
	change := func(w ds.Write, n int) {
		for range n {
			key := randomKey(rng)
			if rng.IntN(4) == 0 {
				assert.OK(t, w.Delete(bg, key))
				delete(all, key.String())
				continue
			}
			value := bytes.Repeat([]byte{byte('a' + rng.IntN(4))}, rng.IntN(3)*300)
			assert.OK(t, w.Put(bg, key, value))
			all[key.String()] = value
		}
	}
	change(d, 300)
	for range 1000 {
		compareNaive(t, d, randomQuery(rng), all)
	}
	x, err := d.NewTransaction(bg, false)
	assert.OK(t, err)
	defer x.Discard(bg)
	for range 300 {
		change(x, 1)
		compareNaive(t, x, randomQuery(rng), all)
	}
}

func compareNaive(t *testing.T, d ds.Read, q dsq.Query, all map[string][]byte) {
	t.Helper()
	var entries []dsq.Entry
	for key, value := range all {
		entries = append(entries, dsq.Entry{Key: key, Value: value, Size: len(value)})
	}
	inOrder := q
	if len(q.Orders) == 0 { // the order in which results come otherwise
		inOrder.Orders = []dsq.Order{dsq.OrderByKey{}}
	}
	want, err := dsq.NaiveQueryApply(inOrder, dsq.ResultsWithEntries(q, entries)).Rest()
	assert.OK(t, err)
	res, err := d.Query(bg, q)
	assert.OK(t, err)
	if !reflect.DeepEqual(res.Query(), q) {
		t.Fatalf("query %s became %s", q, res.Query())
	}
	got, err := res.Rest()
	assert.OK(t, err)
	same := slices.EqualFunc(got, want, func(g, w dsq.Entry) bool {
		return g.Key == w.Key && g.Size == w.Size && (q.KeysOnly && g.Value == nil || !q.KeysOnly && g.Value != nil && bytes.Equal(g.Value, w.Value))
	})
	if !same {
		t.Fatalf("%s (keys only: %v): got %d\n%v\nwant %d\n%v", q, q.KeysOnly, len(got), got, len(want), want)
	}
}

var segments = []string{"a", "ab", "b", "B", "\xff", "a\xff", "é", "0"}

func randomKey(rng *rand.Rand) ds.Key {
	key := ""
	for range 1 + rng.IntN(3) {
		key += "/" + segments[rng.IntN(len(segments))]
	}
	return ds.RawKey(key)
}

func randomQuery(rng *rand.Rand) (q dsq.Query) {
	ops := []dsq.Op{dsq.Equal, dsq.NotEqual, dsq.LessThan, dsq.LessThanOrEqual, dsq.GreaterThan, dsq.GreaterThanOrEqual}
	if rng.IntN(2) == 0 {
		q.Prefix = []string{"/", "/a", "a/", "/ab/", "/\xff", "/a/b/..", "/nobody"}[rng.IntN(7)]
	}
	for range rng.IntN(3) {
		op := ops[rng.IntN(len(ops))]
		key := dsq.FilterKeyCompare{Op: op, Key: randomKey(rng).String()}
		prefix := dsq.FilterKeyPrefix{Prefix: randomKey(rng).String()}
		value := dsq.FilterValueCompare{Op: op, Value: []byte(strings.Repeat("b", rng.IntN(3)*300))}
		q.Filters = append(q.Filters, []dsq.Filter{key, &key, prefix, &prefix, value, &value, evenKeys{}}[rng.IntN(7)])
	}
	byLength := dsq.OrderByFunction(func(a, b dsq.Entry) int { return len(a.Value) - len(b.Value) })
	for range rng.IntN(3) {
		q.Orders = append(q.Orders, []dsq.Order{
			dsq.OrderByKey{}, &dsq.OrderByKey{}, dsq.OrderByKeyDescending{}, &dsq.OrderByKeyDescending{},
			dsq.OrderByValue{}, dsq.OrderByValueDescending{}, byLength,
		}[rng.IntN(7)])
	}
	q.Offset = []int{0, 0, 1, 7, 1000}[rng.IntN(5)]
	q.Limit = []int{0, 0, 1, 7, 1000, math.MaxInt}[rng.IntN(6)]
	q.KeysOnly = rng.IntN(3) == 0
	return q
}

// evenKeys is a filter that the package doesn't know.
type evenKeys struct{}

func (evenKeys) Filter(e dsq.Entry) bool { return len(e.Key)%2 == 0 }

// TestQueryIsOneVersion: what is written and deleted while results are read does not show.
func TestQueryIsOneVersion(t *testing.T) {
	for _, orders := range [][]dsq.Order{nil, {dsq.OrderByValue{}}} {
		d := open(t, brock.Options{})
		put(t, d, "/1", "1", "/2", "2", "/3", "3")
		res, err := d.Query(bg, dsq.Query{Orders: orders})
		assert.OK(t, err)
		put(t, d, "/0", "0", "/21", "21", "/4", "4")
		var got []string
		for r := range res.Next() {
			assert.OK(t, r.Error)
			got = append(got, r.Key)
			assert.OK(t, d.Delete(bg, ds.RawKey(r.Key))) // delete while iterating
			assert.OK(t, d.Delete(bg, ds.RawKey("/3")))
		}
		if want := []string{"/1", "/2", "/3"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if left := query(t, d, dsq.Query{}); !slices.Equal(left, []string{"/0", "/21", "/4"}) {
			t.Errorf("%v are left", left)
		}
	}
}

// TestLimitsOfQueries: limits and offsets that are negative are none, as in go-datastore.
func TestLimitsOfQueries(t *testing.T) {
	d := open(t, brock.Options{})
	put(t, d, "/1", "b", "/2", "a")
	for _, q := range []dsq.Query{
		{Limit: -1, Offset: -1},
		{Limit: -1, Offset: -1, Orders: []dsq.Order{dsq.OrderByValueDescending{}}},
		{Limit: math.MaxInt, Offset: 0, Orders: []dsq.Order{dsq.OrderByValueDescending{}}},
	} {
		if got := query(t, d, q); !slices.Equal(got, []string{"/1", "/2"}) {
			t.Errorf("%s: %v", q, got)
		}
	}
	if got := query(t, d, dsq.Query{Limit: math.MaxInt, Offset: math.MaxInt}); got != nil {
		t.Errorf("behind the end: %v", got)
	}
}

// TestUnknownOperations: where go-datastore's filters panic, there is an error.
func TestUnknownOperations(t *testing.T) {
	d := open(t, brock.Options{})
	for _, f := range []dsq.Filter{
		dsq.FilterKeyCompare{Op: "~"}, &dsq.FilterKeyCompare{}, dsq.FilterValueCompare{Op: "<>"}, &dsq.FilterValueCompare{},
	} {
		if _, err := d.Query(bg, dsq.Query{Filters: []dsq.Filter{f}}); !errors.Is(err, brock.ErrInvalid) {
			t.Errorf("%#v: %v", f, err)
		}
	}
}

// TestEndOfQueries: results end by Close, by the end of ctx, of the Datastore, and of a transaction.
// After that there are none, and no goroutine and no transaction is left behind.
func TestEndOfQueries(t *testing.T) {
	for _, q := range []dsq.Query{{}, {KeysOnly: true}, {Orders: []dsq.Order{dsq.OrderByValue{}}}} {
		filled := func(t *testing.T) *Datastore {
			d := open(t, brock.Options{})
			for i := range 1000 {
				put(t, d, fmt.Sprint("/", i), "value")
			}
			return d
		}
		end := func(t *testing.T, res dsq.Results, want error) {
			t.Helper()
			r, ok := res.NextSync()
			if want != nil {
				if !ok || !errors.Is(r.Error, want) {
					t.Errorf("%s: %v, %v, want %v", q, r, ok, want)
				}
				r, ok = res.NextSync()
			}
			if ok {
				t.Errorf("%s: after the end: %v", q, r)
			}
			assert.OK(t, res.Close())
			assert.OK(t, res.Close())
		}
		t.Run("close", func(t *testing.T) {
			d := filled(t)
			res, err := d.Query(bg, q)
			assert.OK(t, err)
			if r, ok := res.NextSync(); !ok || r.Error != nil {
				t.Fatal(r, ok)
			}
			assert.OK(t, res.Close())
			end(t, res, nil)
			noneIsPinned(t, d)
		})
		t.Run("channel", func(t *testing.T) {
			d := filled(t)
			res, err := d.Query(bg, q)
			assert.OK(t, err)
			if r := <-res.Next(); r.Error != nil {
				t.Fatal(r)
			}
			assert.OK(t, res.Close())
			<-res.Done()
			noneIsPinned(t, d)
		})
		t.Run("context", func(t *testing.T) {
			d := filled(t)
			ctx, cancel := context.WithCancel(bg)
			res, err := d.Query(ctx, q)
			assert.OK(t, err)
			cancel()
			end(t, res, context.Canceled)
			noneIsPinned(t, d)
			if _, err := d.Query(ctx, q); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		t.Run("datastore", func(t *testing.T) {
			d := filled(t)
			res, err := d.Query(bg, q)
			assert.OK(t, err)
			assert.OK(t, d.Close())
			end(t, res, brock.ErrClosed)
		})
		t.Run("transaction", func(t *testing.T) {
			d := filled(t)
			for _, readOnly := range []bool{false, true} {
				x, err := d.NewTransaction(bg, readOnly)
				assert.OK(t, err)
				res, err := x.Query(bg, q)
				assert.OK(t, err)
				x.Discard(bg)
				end(t, res, brock.ErrTxnDone)
			}
			noneIsPinned(t, d)
		})
		t.Run("limit", func(t *testing.T) {
			d := filled(t)
			q := q
			q.Limit = 1
			res, err := d.Query(bg, q)
			assert.OK(t, err)
			if r, ok := res.NextSync(); !ok || r.Error != nil {
				t.Fatal(r, ok)
			}
			noneIsPinned(t, d) // though the caller neither asks again nor calls Close
		})
	}
}

// noneIsPinned fails if a transaction is open that reads something that was replaced since.
func noneIsPinned(t *testing.T, d *Datastore) {
	t.Helper()
	put(t, d, "/0", "replaced")
	if tree := d.DB().Metrics().Tree; tree.PinnedVersion != 0 {
		t.Errorf("version %d is read by %s", tree.PinnedVersion, tree.PinnedBy)
	}
}

// TestFilterUsesTheTransaction: filters and orders may use what is queried.
func TestFilterUsesTheTransaction(t *testing.T) {
	d := open(t, brock.Options{})
	put(t, d, "/1", "/2", "/2", "", "/3", "/4")
	x, err := d.NewTransaction(bg, false)
	assert.OK(t, err)
	defer x.Discard(bg)
	for _, d := range []ds.Read{d, x} {
		pointsToKey := filterFunc(func(e dsq.Entry) bool {
			found, err := d.Has(bg, ds.NewKey(string(e.Value)))
			assert.OK(t, err)
			return found && len(e.Value) > 0
		})
		if got := query(t, d, dsq.Query{Filters: []dsq.Filter{pointsToKey}}); !slices.Equal(got, []string{"/1"}) {
			t.Errorf("got %v", got)
		}
	}
}

type filterFunc func(e dsq.Entry) bool

func (f filterFunc) Filter(e dsq.Entry) bool { return f(e) }

// TestExpirationsOfQueries: expirations come if they are asked for, and what has expired is no result.
func TestExpirationsOfQueries(t *testing.T) {
	var h hand
	d := open(t, h.options())
	put(t, d, "/ever", "1")
	assert.OK(t, d.PutWithTTL(bg, ds.NewKey("/hour"), []byte("2"), time.Hour))
	assert.OK(t, d.PutWithTTL(bg, ds.NewKey("/minute"), []byte("3"), time.Minute))
	h.now = h.now.Add(time.Minute)
	for _, returns := range []bool{true, false} {
		res, err := d.Query(bg, dsq.Query{KeysOnly: true, ReturnExpirations: returns})
		assert.OK(t, err)
		got, err := res.Rest()
		assert.OK(t, err)
		if len(got) != 2 || got[0].Key != "/ever" || got[1].Key != "/hour" {
			t.Fatalf("got %v", got)
		}
		if !got[0].Expiration.IsZero() || got[1].Expiration.Equal(h.now.Add(59*time.Minute)) != returns {
			t.Errorf("expirations %v and %v", got[0].Expiration, got[1].Expiration)
		}
	}
}
