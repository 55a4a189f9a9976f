package commit

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
)

// manyKeys are n keys.
func manyKeys(prefix string, n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf("%s%06d", prefix, i))
	}
	return keys
}

// reader is a request that has read keys, and some ranges, at a version.
func reader(at entry.Version, keys []string) *Request {
	r := request(at, Serializable, "out")
	r.Check.Reads = reads(keys, [][2]string{{"r", "s"}})
	return r
}

// However much a transaction has read, the leader asks about what came last alone.
func TestLeaderChecksWhatCameLast(t *testing.T) {
	asked := map[int]int{}
	for _, n := range []int{1000, 2000, 4000} {
		m := newMemory()
		p := start(m)
		commit(t, p, request(0, LastWriterWins, manyKeys("before", 3000)...))
		at := m.visible()
		commit(t, p, request(at, LastWriterWins, manyKeys("since", 3000)...))
		m.checked = func(*ReadSet) {
			commit(t, p, request(at, LastWriterWins, manyKeys("last", 50)...))
			m.asked = 0
		}
		commit(t, p, reader(at, manyKeys("k", n)))
		asked[n] = m.asked
	}
	if asked[1000] != asked[4000] || asked[2000] != asked[4000] || asked[4000] > 60 {
		t.Errorf("questions by the size of the read set: %v", asked)
	}
}

// A change is a conflict whenever it comes: before the check ahead, between its looks,
// after it, and in the same group; by a key or by a range.
func TestCheckAheadMissesNothing(t *testing.T) {
	read := manyKeys("k", manyReads)
	for _, change := range []string{"k000123", "-k000123", "rr", "k0001~k0002", "a~z", "zzz", "s~t"} {
		conflicts := change != "zzz" && change != "s~t"
		for _, when := range []string{"before", "between", "after", "in the group"} {
			for _, flushed := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					m := newMemory()
					p := start(m)
					m.flushed = flushed
					commit(t, p, request(0, LastWriterWins, "first"))
					at := m.visible()
					other := request(at, LastWriterWins, change)
					looks := 0
					m.checked = func(*ReadSet) {
						if looks++; looks == 1 && when == "between" || looks == 2 && when == "after" {
							commit(t, p, other)
						}
					}
					if when == "before" {
						commit(t, p, other)
					}
					var err error
					if when == "in the group" {
						err = together(p, request(at, LastWriterWins, "another"), other, reader(at, read))[2].err
					} else {
						_, err = p.Commit(t.Context(), reader(at, read))
					}
					if conflicts && !errors.Is(err, errs.ErrConflict) || !conflicts && err != nil {
						t.Errorf("%s, %s, flushed %v: %v", change, when, flushed, err)
					}
				})
			}
		}
	}
}

// If others commit much after each look, the transaction is checked again, and has its
// turn all the same.
func TestCheckAheadHasAnEnd(t *testing.T) {
	m := newMemory()
	p := start(m)
	commit(t, p, request(0, LastWriterWins, "first"))
	looks := 0
	m.checked = func(*ReadSet) {
		looks++
		commit(t, p, request(0, LastWriterWins, manyKeys(fmt.Sprint(looks, "/"), mostArrivals+1)...))
	}
	commit(t, p, reader(1, manyKeys("k", manyReads)))
	if looks != 2*aheadTries {
		t.Errorf("%d looks, want %d", looks, 2*aheadTries)
	}
}
