package scan

import (
	"bytes"
	"errors"
	"fmt"
	"sort"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/rangedel"
)

// keysAt is an iterator over keys that all have version 1, and leaves out whatever it may.
type keysAt struct {
	keys  []string
	i     int
	entry entry.Entry
}

func (it *keysAt) to(i int) bool {
	it.i = min(max(i, -1), len(it.keys))
	if it.i < 0 || it.i == len(it.keys) {
		return false
	}
	it.entry = entry.Entry{Key: []byte(it.keys[it.i]), Version: 1}
	return true
}

func (it *keysAt) from(key []byte) int { return sort.SearchStrings(it.keys, string(key)) }

func (it *keysAt) First() bool                             { return it.to(0) }
func (it *keysAt) Last() bool                              { return it.to(len(it.keys) - 1) }
func (it *keysAt) SeekGE(key []byte) bool                  { return it.to(it.from(key)) }
func (it *keysAt) SeekLT(key []byte) bool                  { return it.to(it.from(key) - 1) }
func (it *keysAt) Next() bool                              { return it.to(it.i + 1) }
func (it *keysAt) Prev() bool                              { return it.to(it.i - 1) }
func (it *keysAt) SkipGE(key []byte, _ entry.Version) bool { return it.to(max(it.i+1, it.from(key))) }
func (it *keysAt) SkipLT(key []byte, _ entry.Version) bool { return it.to(min(it.i-1, it.from(key)-1)) }
func (it *keysAt) SkipNewer(entry.Version) bool            { return it.Next() }
func (it *keysAt) Entry() *entry.Entry                     { return &it.entry }
func (it *keysAt) Err() error                              { return nil }
func (it *keysAt) Close()                                  {}

var errUnreadable = errors.New("unreadable")

// unreadable is a source that covers each key by itself, and can be read n times.
type unreadable struct{ n int }

func (f *unreadable) Versions() (least, greatest entry.Version) { return 2, 2 }

func (f *unreadable) Ordered(entry.Version) rangedel.Sequence { return nil }

func (f *unreadable) Find(key []byte, _ entry.Version, s *rangedel.Stretch) (entry.Version, error) {
	if f.n--; f.n < 0 {
		return 0, errUnreadable
	}
	s.Within(key, append(bytes.Clone(key), 0))
	return 2, nil
}

// A walk that can't read what range deletes hide notes nothing as emptied, wherever in a
// row of deleted keys it fails: what it has not met may be there.
func TestFailedWalkNotesNothing(t *testing.T) {
	src := &keysAt{}
	for i := range 2 * streakNoted {
		src.keys = append(src.keys, fmt.Sprintf("k%05d", i))
	}
	for reads := streakNoted; reads < 2*streakNoted; reads += 5 {
		for _, back := range []bool{false, true} {
			// It has no Pin, so it would panic if it noted something.
			w := walk{src: src, store: src, lo: []byte("k"), hi: []byte("l"), at: 9, cover: rangedel.NewCover(9, &unreadable{n: reads})}
			from := w.lo
			if back {
				from = w.hi
			}
			ok := w.seekKey(from, back)
			if err := w.err(); ok || !errors.Is(err, errUnreadable) {
				t.Fatalf("%d reads, back %v: at an entry %v, %v", reads, back, ok, err)
			}
		}
	}
}
