package salvage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/vfs"
)

// newTarget is a new store in a directory of fs.
func newTarget(t *testing.T, fs vfs.FS) *maker {
	t.Helper()
	err := fs.MkdirAll("/to")
	if err != nil {
		t.Fatal(err)
	}
	m, err := newMaker(Target{Store: filename.Store{FS: fs, Dir: "/to"}, RunFileBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestRangeDeletesMatchAList adds overlapping range deletes, many with one lower bound, in so little
// memory that runs are written and compacted, and asks for the newest one over each key.
func TestRangeDeletesMatchAList(t *testing.T) {
	for seed := range uint64(6) {
		random := rand.New(rand.NewPCG(seed, 0))
		mem := vfs.NewMem()
		d := newSorter(newTarget(t, mem), 0)
		d.limit = 4000
		key := func(i int) []byte { return fmt.Appendf(nil, "%c%03d", 1+i/1000, i%1000) }
		var list []rangedel.Delete
		for range 1500 {
			space := random.IntN(3) * 1000
			lo := space + random.IntN(5)*random.IntN(200)
			r := rangedel.Delete{Lo: key(lo), Hi: key(min(lo+1+random.IntN(300), space+999)), Version: entry.Version(1 + random.IntN(300))}
			if !r.Valid() {
				continue
			}
			list = append(list, r)
			if err := d.addRangeDelete(r); err != nil {
				t.Fatal(err)
			}
		}
		if d.to.open.LastNum() <= fanIn {
			t.Fatalf("%d runs were written", d.to.open.LastNum())
		}
		entries, sources := d.sources()
		cover := rangedel.NewForwardCover(entry.MaxVersion, sources...)
		for i := range 3000 {
			var want entry.Version
			k := key(i)
			for _, r := range list {
				if bytes.Compare(r.Lo, k) <= 0 && bytes.Compare(k, r.Hi) < 0 {
					want = max(want, r.Version)
				}
			}
			if got := cover.Newest(k); got != want || cover.Err() != nil {
				t.Fatalf("seed %d, key %q: %d, want %d; %v", seed, k, got, want, cover.Err())
			}
		}
		cover.Close()
		entries.Close()
		if err := d.removeAll(); err != nil {
			t.Fatal(err)
		}
		if names, err := mem.List("/to"); err != nil || len(names) > 0 {
			t.Errorf("left: %s, %v", strings.Join(names, " "), errors.Join(err))
		}
	}
}

// TestVersionsOfOneKeyInAnyOrder adds very many versions of one key, newest first, as a collection
// writes them: that takes no time by their square.
func TestVersionsOfOneKeyInAnyOrder(t *testing.T) {
	const n = 300_000
	s := newSorter(newTarget(t, vfs.NewMem()), 1<<30)
	for i := range n {
		if err := s.addEntry(&entry.Entry{Key: []byte{1, 'k'}, Version: entry.Version(n - i), Kind: entry.Set}); err != nil {
			t.Fatal(err)
		}
	}
	it, _ := s.sources()
	defer it.Close()
	want := entry.Version(n)
	for ok := it.First(); ok; ok = it.Next() {
		if it.Entry().Version != want {
			t.Fatalf("version %d, want %d", it.Entry().Version, want)
		}
		want--
	}
	if want != 0 || it.Err() != nil {
		t.Fatalf("it ends before version %d: %v", want, it.Err())
	}
}

// removals adds up the lengths of files that are removed.
type removals struct {
	vfs.FS
	bytes int64
}

func (r *removals) Remove(path string) error {
	info, err := r.Stat(path)
	r.bytes += info.Size
	return errors.Join(err, r.FS.Remove(path))
}

// TestRangeDeletesAreRewrittenOncePerLevel adds n range deletes apart from each other, and four times
// as many: what runs were written for, and removed again, is not sixteen times as much.
func TestRangeDeletesAreRewrittenOncePerLevel(t *testing.T) {
	rewritten := func(n int) int64 {
		fs := &removals{FS: vfs.NewMem()}
		d := newSorter(newTarget(t, fs), 0)
		d.limit = 20_000
		for i := range n {
			lo := fmt.Appendf(make([]byte, 1, 300), "%0290d", i)
			if err := d.addRangeDelete(rangedel.Delete{Lo: lo, Hi: append(bytes.Clone(lo), 0), Version: 1}); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.removeAll(); err != nil {
			t.Fatal(err)
		}
		return fs.bytes
	}
	if few, many := rewritten(3000), rewritten(12_000); many > 7*few {
		t.Errorf("%d bytes are rewritten, for four times as many %d", few, many)
	}
}
