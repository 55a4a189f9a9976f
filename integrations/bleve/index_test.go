package brockbleve_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/index/upsidedown"
	"github.com/blevesearch/bleve/v2/index/upsidedown/store/boltdb"
	"github.com/blevesearch/bleve/v2/index/upsidedown/store/goleveldb"
	"github.com/blevesearch/bleve/v2/registry"

	brockbleve "github.com/brockdb/brock/integrations/bleve"
	"github.com/brockdb/brock/internal/test/kit/assert"
)

func init() {
	if err := registry.RegisterKVStore(brockbleve.Name, brockbleve.New); err != nil {
		panic(err)
	}
}

type document struct{ Title, Body string }

// words are of what documents are made: that of n has those that divide n.
var words = []string{"badger", "otter", "weasel", "marten", "stoat", "polecat", "wolverine"}

func documentAt(n int) document {
	d := document{Title: fmt.Sprint("document ", n)}
	for i, word := range words {
		if n%(i+1) == 0 {
			d.Body += strings.Repeat(word+" ", 1+n%3)
		}
	}
	return d
}

func id(n int) string { return fmt.Sprintf("%06d", n) }

// indexAll adds to an index documents from, from+1, ... in batches of 100.
func indexAll(t testing.TB, index bleve.Index, from, to int) {
	t.Helper()
	for from < to {
		batch := index.NewBatch()
		for end := min(from+100, to); from < end; from++ {
			assert.OK(t, batch.Index(id(from), documentAt(from)))
		}
		assert.OK(t, index.Batch(batch))
	}
}

// count returns how many documents a search for a word finds.
func count(t testing.TB, index bleve.Index, word string) int {
	t.Helper()
	query := bleve.NewMatchQuery(word)
	query.SetField("Body")
	result, err := index.Search(bleve.NewSearchRequest(query))
	assert.OK(t, err)
	return int(result.Total)
}

// TestIndex makes an index, searches it, changes it, and opens it again.
func TestIndex(t *testing.T) {
	const documents = 420 // divisible by all
	path := filepath.Join(t.TempDir(), "index")
	index, err := bleve.NewUsing(path, bleve.NewIndexMapping(), upsidedown.Name, brockbleve.Name, map[string]any{"nosync": true})
	assert.OK(t, err)
	indexAll(t, index, 0, documents)
	for round := range 3 {
		live := documents - round*60
		for i, word := range words {
			want := 0
			for n := range live {
				if n%(i+1) == 0 {
					want++
				}
			}
			if got := count(t, index, word); got != want {
				t.Errorf("round %d: %d documents with %s, want %d", round, got, word, want)
			}
		}
		if n, err := index.DocCount(); err != nil || n != uint64(live) {
			t.Errorf("round %d: %d documents, %v", round, n, err)
		}
		for n := live - 60; n < live; n++ {
			assert.OK(t, index.Delete(id(n)))
		}
		assert.OK(t, index.Index(id(0), documentAt(0))) // once more
		assert.OK(t, index.Close())
		index, err = bleve.Open(path)
		assert.OK(t, err)
	}
	assert.OK(t, index.Close())
	if _, err := bleve.NewUsing(path, bleve.NewIndexMapping(), upsidedown.Name, brockbleve.Name, nil); err == nil {
		t.Error("an index was made where one is")
	}
}

// Benchmark measures indexing in batches of 100 documents and searches, beside bleve's stores for bbolt
// and goleveldb. None of them waits for the disk.
func Benchmark(b *testing.B) {
	for _, s := range []struct {
		name   string
		config map[string]any
	}{
		{brockbleve.Name, map[string]any{"nosync": true}},
		{boltdb.Name, map[string]any{"nosync": true}},
		{goleveldb.Name, nil},
	} {
		open := func(b *testing.B) bleve.Index {
			index, err := bleve.NewUsing(filepath.Join(b.TempDir(), "index"), bleve.NewIndexMapping(), upsidedown.Name, s.name, s.config)
			assert.OK(b, err)
			return index
		}
		b.Run("index/"+s.name, func(b *testing.B) {
			index := open(b)
			defer index.Close()
			b.ResetTimer()
			indexAll(b, index, 0, b.N)
		})
		b.Run("search/"+s.name, func(b *testing.B) {
			index := open(b)
			defer index.Close()
			indexAll(b, index, 0, 2000)
			b.ResetTimer()
			for n := range b.N {
				if count(b, index, words[n%len(words)]) == 0 {
					b.Fatal("nothing found")
				}
			}
		})
	}
}
