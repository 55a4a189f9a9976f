package run

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/iterator"
	"github.com/brockdb/brock/internal/run/chunk"
	"github.com/brockdb/brock/internal/run/meta"
	"github.com/brockdb/brock/internal/tombstone"
)

// TestRescuer: pages of runs of all shapes are damaged. A walk, in either direction and
// from anywhere, meets every entry that has no byte on a damaged page, nothing else, and
// tells of all that is missing.
func TestRescuer(t *testing.T) { forms(t, testRescuer) }

func testRescuer(t *testing.T) {
	for i := range shapes {
		s := &shapes[i]
		if s.keys > 20000 || testing.Short() && s.name == "many versions" {
			continue // the others have as many pages, or fewer entries
		}
		t.Run(s.name, func(t *testing.T) {
			all := s.generate(uint64(i))
			for _, noMap := range []bool{false, true} {
				seeds := uint64(2)
				switch {
				case *every:
					seeds = 8
				case testing.Short():
					seeds = 1
				}
				for seed := range seeds {
					rescueDamaged(t, s, all, noMap, rand.New(rand.NewPCG(seed, 5)))
				}
			}
		})
	}
}

func rescueDamaged(t *testing.T, s *shape, all []entry.Entry, noMap bool, rnd *rand.Rand) {
	dir := t.TempDir()
	cfg := writerConfig(dir)
	cfg.FileBytes = s.fileBytes
	m := writeRun(t, cfg, all)
	lost, trailers := damagePages(t, dir, m, rnd, 1+rnd.IntN(3))
	r := openRun(t, openConfig(dir, noMap), m)
	c := &rescueCheck{t: t, all: all, lost: lost}
	if trailers { // then what follows a bad page of that chunk may be lost, too
		c.lost = nil
	}
	c.walk(r, iterator.Iterator.First, iterator.Iterator.Next, 0, 1)
	c.walk(r, iterator.Iterator.Last, iterator.Iterator.Prev, len(all)-1, -1)
	for range 8 {
		at := rnd.IntN(len(all))
		for at > 0 && bytes.Equal(all[at-1].Key, all[at].Key) {
			at--
		}
		key := all[at].Key
		c.walk(r, func(it iterator.Iterator) bool { return it.SeekGE(key) }, iterator.Iterator.Next, at, 1)
		c.walk(r, func(it iterator.Iterator) bool { return it.SeekLT(key) }, iterator.Iterator.Prev, at-1, -1)
	}
}

// damagePages flips a bit each in some pages of the run's chunks. It returns the places
// that are lost, by file and page, and whether a trailer is among them.
func damagePages(t *testing.T, dir string, m meta.Run, rnd *rand.Rand, n int) (lost map[string]bool, trailers bool) {
	r, err := Open(openConfig(dir, true), m)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	lost = make(map[string]bool)
	for range n {
		c := &r.chunks[rnd.IntN(len(r.chunks))]
		off := c.Place.Offset + rnd.Int64N(int64(c.Layout.Size()))
		flip(t, filepath.Join(dir, c.Place.File), off)
		lost[fmt.Sprint(c.Place.File, off/chunk.PageSize)] = true
		trailers = trailers || off >= c.Place.Offset+int64(c.TrailerStart())
	}
	return lost, trailers
}

func flip(t *testing.T, path string, off int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], off); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 4
	if _, err := f.WriteAt(b[:], off); err != nil {
		t.Fatal(err)
	}
}

// rescueCheck compares walks with what was written.
type rescueCheck struct {
	t    *testing.T
	all  []entry.Entry
	lost map[string]bool // pages; nil: not asked
}

func (c *rescueCheck) walk(r *Reader, start, move func(iterator.Iterator) bool, at, by int) {
	t := c.t
	t.Helper()
	var told []*errs.Corruption
	it := r.Rescuer(func(d *errs.Corruption) bool {
		told = append(told, d)
		return true
	})
	defer it.Close()
	var missing []*entry.Entry
	for ok := start(it); ok; ok = move(it) {
		for at >= 0 && at < len(c.all) && !same(it.Entry(), &c.all[at]) {
			missing = append(missing, &c.all[at])
			at += by
		}
		if at < 0 || at >= len(c.all) {
			t.Fatalf("%s was never written, or is out of order", brief(it.Entry()))
		}
		at += by
	}
	if it.Err() != nil {
		t.Fatal(it.Err())
	}
	for ; at >= 0 && at < len(c.all); at += by {
		missing = append(missing, &c.all[at])
	}
	for _, e := range missing {
		if !concerned(told, e.Key) {
			t.Fatalf("%s is missing, and nobody was told", brief(e))
		}
	}
	// A page of small entries is some hundreds of them at most.
	if c.lost != nil && len(missing) > 600*len(c.lost) {
		t.Fatalf("%d entries are missing for %d pages", len(missing), len(c.lost))
	}
}

func concerned(told []*errs.Corruption, key []byte) bool {
	for _, d := range told {
		lo, hi, ok := errs.Concerned(d)
		if ok && bytes.Compare(lo, key) <= 0 && (hi == nil || bytes.Compare(key, hi) < 0) {
			return true
		}
	}
	return false
}

// TestRescuerLosesOnlyTheDamagedPages counts: each entry that is missing has a byte on a
// damaged page.
func TestRescuerLosesOnlyTheDamagedPages(t *testing.T) { forms(t, testRescuerLosesOnlyTheDamagedPages) }

func testRescuerLosesOnlyTheDamagedPages(t *testing.T) {
	all := shapes[4].generate(4)
	dir := t.TempDir()
	m := writeRun(t, writerConfig(dir), all)
	sound := openRun(t, openConfig(dir, true), m)
	where := placesOf(t, sound)
	if len(where) != len(all) {
		t.Fatalf("%d of %d entries", len(where), len(all))
	}
	for i := range sound.chunks {
		c := &sound.chunks[i]
		for off := int64(0); off < int64(c.Layout.Size()); off += chunk.PageSize {
			at := c.Place.Offset + off + 100
			path := filepath.Join(dir, c.Place.File)
			flip(t, path, at)
			r := openRun(t, openConfig(dir, off%8192 == 0), m)
			n := 0
			it := r.Rescuer(func(*errs.Corruption) bool { return true })
			for ok := it.First(); ok; ok = it.Next() {
				n++
			}
			want := 0
			for _, w := range where {
				// Without its trailer an encrypted chunk is lost.
				inTrailer := ring != nil && off >= int64(c.TrailerStart()) && c.Place.Offset <= w[0]*chunk.PageSize && w[0]*chunk.PageSize < c.Place.Offset+off
				if (w[0] > at/chunk.PageSize || w[1] < at/chunk.PageSize) && !inTrailer {
					want++
				}
			}
			if n != want || it.Err() != nil {
				t.Fatalf("chunk %d, byte %d: %d entries, want %d: %v", i, off, n, want, it.Err())
			}
			flip(t, path, at)
		}
	}
}

// placesOf are the first and the last page of each entry of a run of one file.
func placesOf(t *testing.T, r *Reader) (where [][2]int64) {
	it := r.newCursor()
	for ok := it.First(); ok; {
		at := it.Chunk().Place.Offset + int64(it.Offset())
		n := int64(1)
		i, end := it.i, it.Chunk().Place.Offset+int64(it.Chunk().End)
		if ok = it.Next(); ok && it.i == i {
			end = it.Chunk().Place.Offset + int64(it.Offset())
		}
		n = end - at
		where = append(where, [2]int64{at / chunk.PageSize, (at + n - 1) / chunk.PageSize})
	}
	if it.Err() != nil {
		t.Fatal(it.Err())
	}
	return where
}

// TestRescuerEnds: if tell returns false, the damage is the error of the move, and
// the next move asks again.
func TestRescuerEnds(t *testing.T) { forms(t, testRescuerEnds) }

func testRescuerEnds(t *testing.T) {
	all := shapes[4].generate(4)
	dir := t.TempDir()
	m := writeRun(t, writerConfig(dir), all)
	flip(t, filepath.Join(dir, "000007.run"), 5*chunk.PageSize+9)
	r := openRun(t, openConfig(dir, false), m)
	goOn, asked := false, 0
	it := r.Rescuer(func(*errs.Corruption) bool {
		asked++
		return goOn
	})
	walk := func() (n int) {
		for ok := it.First(); ok; ok = it.Next() {
			n++
		}
		return n
	}
	if n := walk(); n == 0 || n >= len(all) || asked != 1 || it.Err() == nil || it.Next() {
		t.Fatalf("%d entries, asked %d times, %v", n, asked, it.Err())
	}
	goOn = true
	if n := walk(); n < len(all)/2 || asked != 2 || it.Err() != nil {
		t.Fatalf("%d entries, asked %d times, %v", n, asked, it.Err())
	}
	if walk(); asked != 2 {
		t.Errorf("told again: %d times", asked)
	}
}

// TestRescuedTombstones: what a damaged page of range tombstones leaves still covers what
// it did, and nothing else is covered.
func TestRescuedTombstones(t *testing.T) { forms(t, testRescuedTombstones) }

func testRescuedTombstones(t *testing.T) {
	var list []tombstone.Tombstone
	for i := range 2000 {
		lo := fmt.Sprintf("\x00k%06d", 10*i)
		list = append(list, tombstone.Tombstone{Lo: []byte(lo), Hi: []byte(lo + "5"), Version: entry.Version(10 + i)})
	}
	dir := t.TempDir()
	m := writeRun(t, writerConfig(dir), goldenEntries(), list...)
	sound := openRun(t, openConfig(dir, true), m)
	c := &sound.spans.chunks[0]
	for _, off := range []int64{-1, 0, chunk.PageSize, int64(c.TrailerStart())} {
		at := c.Place.Offset + off + 50
		path := filepath.Join(dir, c.Place.File)
		damaged := off >= 0
		if damaged {
			flip(t, path, at)
		}
		r := openRun(t, openConfig(dir, false), m)
		told := 0
		src := r.Tombstones().Rescued(func(d *errs.Corruption) bool {
			if lo, _, ok := errs.Concerned(d); !ok || !bytes.Equal(lo, m.First) {
				t.Errorf("concerns %q", lo)
			}
			told++
			return true
		})
		missing := 0
		for i := range list {
			v, err := src.Find(list[i].Lo, entry.MaxVersion, nil)
			if err != nil || v != 0 && v != list[i].Version {
				t.Fatalf("version %d, want %d: %v", v, list[i].Version, err)
			}
			if v == 0 {
				missing++
			}
			if v, err := src.Find(list[i].Hi, entry.MaxVersion, nil); v != 0 || err != nil {
				t.Fatalf("version %d: %v", v, err)
			}
		}
		// What is lost in one node may be in another, so that nothing is missing.
		if ring != nil && off == int64(c.TrailerStart()) {
			missing -= len(list) // without its trailer an encrypted chunk is lost
		}
		if missing > 300 || missing > 0 && told == 0 || !damaged && told > 0 {
			t.Errorf("at %d: %d missing, told %d times", off, missing, told)
		}
		if damaged {
			flip(t, path, at)
		}
	}
}
