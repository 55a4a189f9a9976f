package brockds

import (
	"slices"
	"testing"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/namespace"
	dstest "github.com/ipfs/go-datastore/test"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
)

// TestSuite runs go-datastore's own tests on stores of several kinds.
func TestSuite(t *testing.T) {
	t.Run("files", func(t *testing.T) {
		dstest.SubtestAll(t, open(t, brock.Options{Dir: t.TempDir()}))
	})
	t.Run("memory", func(t *testing.T) { dstest.SubtestAll(t, open(t, brock.Options{})) })
	t.Run("keyspace", func(t *testing.T) {
		db := open(t, brock.Options{}).DB()
		keys, err := db.Keyspace("blocks")
		assert.OK(t, err)
		assert.OK(t, db.Set([]byte("/0key0"), []byte("of the default keyspace")))
		dstest.SubtestAll(t, New(db, keys))
	})
	t.Run("encrypted", func(t *testing.T) {
		dstest.SubtestAll(t, open(t, brock.Options{
			Dir: t.TempDir(), Keys: brock.StaticKey(make([]byte, 32)),
			KeyspaceDefaults: brock.KeyspaceOptions{Compression: brock.S2},
		}))
	})
	t.Run("namespace", func(t *testing.T) { // as programs mount several in one
		d := open(t, brock.Options{})
		put(t, d, "/other/0key0", "x")
		dstest.SubtestAll(t, namespace.Wrap(d, ds.NewKey("/mine")))
	})
}

func TestFeatures(t *testing.T) {
	var got, want []string
	for _, f := range ds.FeaturesForDatastore(open(t, brock.Options{})) {
		got = append(got, f.Name)
	}
	for _, f := range ds.Features() {
		want = append(want, f.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("features %v, want %v", got, want)
	}
}
