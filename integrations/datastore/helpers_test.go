package brockds

import (
	"context"
	"testing"
	"time"

	ds "github.com/ipfs/go-datastore"
	dsq "github.com/ipfs/go-datastore/query"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
)

var bg = context.Background()

// open opens a Datastore, in memory unless o has a directory, and closes it at the test's end.
func open(t testing.TB, o brock.Options) *Datastore {
	t.Helper()
	o.InMemory = o.Dir == ""
	d, err := Open(o)
	assert.OK(t, err)
	t.Cleanup(func() { assert.OK(t, d.Close()) })
	return d
}

func put(t testing.TB, d ds.Write, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		assert.OK(t, d.Put(bg, ds.NewKey(pairs[i]), []byte(pairs[i+1])))
	}
}

// query returns the keys that q finds, in their order.
func query(t testing.TB, d ds.Read, q dsq.Query) []string {
	t.Helper()
	res, err := d.Query(bg, q)
	assert.OK(t, err)
	return keysOf(t, res)
}

func keysOf(t testing.TB, res dsq.Results) (keys []string) {
	t.Helper()
	entries, err := res.Rest()
	assert.OK(t, err)
	assert.OK(t, res.Close())
	for _, e := range entries {
		keys = append(keys, e.Key)
	}
	return keys
}

// hand is a clock that the test sets.
type hand struct{ now time.Time }

func (h *hand) options() brock.Options {
	h.now = time.UnixMilli(1_700_000_000_000)
	return brock.Options{Now: func() time.Time { return h.now }}
}
