package engine

import (
	"bytes"
	"math"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock/internal/view"
)

// searcher seeks past keys that were deleted, so that no reader is the first to do so: a seek notes
// the ranges that it finds emptied (txn/scan/streak.go), and later ones skip them. It seeks from
// some of the deleted keys, and from where deletes went on before.
//
// Invariant: of deletes in the order of keys whose commits have returned, no more than searchAfter
// were not sought past. Four times as many while the last searches have found little, as of deletes
// in no order: something is alive around nearly each of these until the last of them.
type searcher struct {
	cfg   *Config
	views *view.Set

	// Only the commit leader uses these:
	deletes uint32   // that were added to memtables
	added   [][]byte // keys to seek from, once their deletes are published
	count   int64    // deletes that are not published yet

	waiting atomic.Int64 // deletes that are published and were not searched
	due     atomic.Int64 // deletes after which a search is due
	keys    sync.Mutex   // guards from
	from    [][]byte     // published keys to seek from

	mu    sync.Mutex // held over a search; taken last
	heads [][]byte   // keys from which the last search has come far: deletes may go on behind
}

const (
	searchAfter = 1 << 12 // deletes: to pass that many takes about 1 ms
	searchEvery = 1 << 6  // deletes for each key that is sought from
	searchFar   = 3       // keys to seek from that a seek passes if deletes are in order

	longestSought = 1 << 10 // bytes of a key that is sought from: it is copied

	// Multiples of goldenRatio (mod 2^32) are spread evenly, and so is every second, third or
	// fourth of them: if goroutines delete in turn, some keys of each are sought from.
	goldenRatio uint32 = 0x9e3779b9
)

func newSearcher(cfg *Config, views *view.Set) *searcher {
	s := &searcher{cfg: cfg, views: views}
	s.due.Store(searchAfter)
	return s
}

// countDelete counts a delete that the commit leader adds to a memtable.
func (s *searcher) countDelete(key []byte) {
	s.deletes++
	s.count++
	if s.deletes*goldenRatio <= math.MaxUint32/searchEvery && len(key) <= longestSought {
		s.added = append(s.added, bytes.Clone(key))
	}
}

// countDeletes counts n deletes of a transaction larger than its memory, in the place of the commit
// leader. some has fewer than 4,096 of their keys, and no long one.
func (s *searcher) countDeletes(some [][]byte, n int64) {
	s.added = append(s.added, some...)
	s.count += n
}

// publishDeletes makes the deletes that were counted due for a search. The commit leader calls it
// once the deletes are visible.
func (s *searcher) publishDeletes() {
	if s.count == 0 {
		return
	}
	// One mutex for both, so that CatchUp never takes a count without the keys to seek from.
	s.keys.Lock()
	s.from = append(s.from, s.added...)
	s.waiting.Add(s.count)
	s.keys.Unlock()
	s.added, s.count = nil, 0
}

// CatchUp searches if that is due. A committer calls it after its commit is published, with no
// lock held. So a goroutine that deletes much pays for the search. A task in the background could
// not keep up with it.
func (s *searcher) CatchUp() {
	if s.waiting.Load() < s.due.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting.Load() < s.due.Load() {
		return // another committer has searched meanwhile
	}
	s.keys.Lock()
	from := append(s.heads, s.from...)
	s.from = nil
	s.waiting.Store(0)
	s.keys.Unlock()
	// Acquire after the keys were taken: their deletes are published, so this reader sees them.
	p, err := s.views.Acquire(0)
	if err != nil {
		return // closed
	}
	defer p.Release()
	s.searchFrom(p, from)
}

// searchFrom seeks to the first visible key from each of the keys on.
func (s *searcher) searchFrom(p *view.Pin, from [][]byte) {
	slices.SortFunc(from, bytes.Compare)
	s.heads = nil
	all, found := len(from), 0
	for len(from) > 0 {
		next, err := s.cfg.PastDeletes(p, s.cfg.unixMilli(), from[0])
		if err != nil {
			return // a reader of the damaged place gets the error
		}
		passed := sort.Search(len(from), func(i int) bool { return bytes.Compare(from[i], next) >= 0 })
		if passed >= searchFar {
			s.heads = append(s.heads, from[0])
			found += passed
		}
		from = from[max(passed, 1):]
	}
	// Where a quarter of the deletes is in emptied ranges, searching is worth its work.
	if 4*found >= all {
		s.due.Store(searchAfter)
	} else {
		s.due.Store(min(2*s.due.Load(), 4*searchAfter))
	}
}
