package compact

import (
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/iterator"
)

// numbered walks n entries, whose versions are their numbers.
type numbered struct {
	iterator.Iterator
	n, at, length int
	e             entry.Entry
	closed        *int
}

func (it *numbered) to(i int) bool {
	it.at = i
	it.e = entry.Entry{Version: entry.Version(i), Separated: i%3 > 0, Handle: entry.Handle{Segment: 1, Length: uint64(it.length)}}
	return i < it.n
}

func (it *numbered) First() bool         { return it.to(0) }
func (it *numbered) Next() bool          { return it.to(it.at + 1) }
func (it *numbered) Entry() *entry.Entry { return &it.e }
func (it *numbered) Close()              { *it.closed++ }

// Each value that moves is told of once, before it is met, and not too far ahead.
func TestScoutGoesAhead(t *testing.T) {
	const n = 2000
	for name, c := range map[string]struct {
		length int
		busy   bool
		most   int // entries
	}{
		"small": {1000, false, scoutMost}, "busy": {1000, true, scoutBusy}, "large": {1 << 20, false, 3 * scoutBytes / (2 << 20)}, "huge": {1 << 30, false, 3},
	} {
		t.Run(name, func(t *testing.T) {
			closed, told, told0, starts := 0, 0, 0, 0
			it := Scout{
				Entries: &numbered{n: n, length: c.length, closed: &closed},
				Near: func(e *entry.Entry) {
					if told++; int(e.Version) < told0 {
						t.Errorf("told of entry %d after %d", e.Version, told0)
					}
					told0 = int(e.Version)
				},
				Start: func() { starts++ },
				Moves: func(e *entry.Entry) bool { return e.Separated },
				Busy:  func() bool { return c.busy },
			}.Ahead(&numbered{n: n, length: c.length, closed: &closed})
			met := 0
			for ok := it.First(); ok; ok = it.Next() {
				e := it.Entry()
				if int(e.Version) != met || e.Separated && told0 < met || told0 > met+c.most {
					t.Fatalf("at entry %d, met %d, told of %d", e.Version, met, told0)
				}
				met++
			}
			it.Close()
			if met != n || told != n-(n+2)/3 || closed != 2 || starts > n+1 {
				t.Errorf("%d entries, %d told of by %d calls, %d iterators closed", met, told, starts, closed)
			}
		})
	}
}
