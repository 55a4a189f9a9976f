package commit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/test/kit/draw"
)

// txn is a transaction of the conflict table.
type txn struct {
	iso    Isolation
	keys   []string    // read
	ranges [][2]string // read
	writes []string
}

func (x txn) request(at entry.Version) *Request {
	r := request(at, x.iso, x.writes...)
	if len(x.keys)+len(x.ranges) > 0 {
		r.Check.Reads = reads(x.keys, x.ranges)
	}
	return r
}

// Each case commits first and then second, of which neither saw the other. The
// store holds b and d. The result must be the same whether first is in an
// earlier group or in the same one.
var conflicts = []struct {
	name          string
	first, second txn
	conflict      bool
}{
	{"blind writes", txn{writes: []string{"b"}}, txn{writes: []string{"b"}}, false},
	{"read of a key that was written", txn{writes: []string{"b"}}, txn{keys: []string{"b"}, writes: []string{"x"}}, true},
	{"read of a key that was deleted", txn{writes: []string{"-b"}}, txn{keys: []string{"b"}, writes: []string{"x"}}, true},
	{"read of another key", txn{writes: []string{"b"}}, txn{keys: []string{"d"}, writes: []string{"b"}}, false},
	{"read of an absent key that was written", txn{writes: []string{"c"}}, txn{keys: []string{"c"}, writes: []string{"x"}}, true},
	{"read of an absent key that was deleted", txn{writes: []string{"-c"}}, txn{keys: []string{"c"}, writes: []string{"x"}}, true},
	{"read of a key that is a prefix", txn{writes: []string{"bb"}}, txn{keys: []string{"b"}, writes: []string{"x"}}, false},
	{"last of many reads", txn{writes: []string{"b"}}, txn{keys: []string{"x", "y", "b"}, writes: []string{"x"}}, true},
	{"last of many writes", txn{writes: []string{"x", "y", "b"}}, txn{keys: []string{"b"}, writes: []string{"x"}}, true},
	{"range: a key in it was written", txn{writes: []string{"b"}}, txn{ranges: [][2]string{{"a", "e"}}, writes: []string{"x"}}, true},
	{"range: a phantom", txn{writes: []string{"c"}}, txn{ranges: [][2]string{{"a", "e"}}, writes: []string{"x"}}, true},
	{"range: a phantom in an empty range", txn{writes: []string{"p"}}, txn{ranges: [][2]string{{"m", "q"}}, writes: []string{"x"}}, true},
	{"range: the lower bound is in it", txn{writes: []string{"a"}}, txn{ranges: [][2]string{{"a", "e"}}, writes: []string{"x"}}, true},
	{"range: the upper bound is not", txn{writes: []string{"e"}}, txn{ranges: [][2]string{{"a", "e"}}, writes: []string{"x"}}, false},
	{"range: below it", txn{writes: []string{"A"}}, txn{ranges: [][2]string{{"a", "e"}}, writes: []string{"x"}}, false},
	{"range: without upper bound", txn{writes: []string{"zzz"}}, txn{ranges: [][2]string{{"y", ""}}, writes: []string{"x"}}, true},
	{"range: below one without upper bound", txn{writes: []string{"w"}}, txn{ranges: [][2]string{{"y", ""}}, writes: []string{"x"}}, false},
	{"range: the second of two", txn{writes: []string{"n"}}, txn{ranges: [][2]string{{"a", "b"}, {"m", "o"}}, writes: []string{"x"}}, true},
	{"write skew, serializable", txn{keys: []string{"b", "d"}, writes: []string{"b"}}, txn{keys: []string{"b", "d"}, writes: []string{"d"}}, true},
	{"write skew, snapshot", txn{iso: SnapshotIsolation, keys: []string{"b", "d"}, writes: []string{"b"}}, txn{iso: SnapshotIsolation, keys: []string{"b", "d"}, writes: []string{"d"}}, false},
	{"snapshot: the same key", txn{iso: SnapshotIsolation, writes: []string{"b"}}, txn{iso: SnapshotIsolation, writes: []string{"b"}}, true},
	{"snapshot: the same new key", txn{iso: SnapshotIsolation, writes: []string{"c"}}, txn{iso: SnapshotIsolation, writes: []string{"c"}}, true},
	{"snapshot: one of many keys", txn{iso: SnapshotIsolation, writes: []string{"b", "c"}}, txn{iso: SnapshotIsolation, writes: []string{"x", "-c"}}, true},
	{"snapshot: other keys", txn{iso: SnapshotIsolation, writes: []string{"b"}}, txn{iso: SnapshotIsolation, writes: []string{"d"}}, false},
	{"snapshot after a blind write", txn{iso: LastWriterWins, writes: []string{"b"}}, txn{iso: SnapshotIsolation, writes: []string{"b"}}, true},
	{"read of a key in a range that was deleted", txn{writes: []string{"a~c"}}, txn{keys: []string{"b"}, writes: []string{"x"}}, true},
	{"read of an absent key in a range that was deleted", txn{writes: []string{"a~c"}}, txn{keys: []string{"aa"}, writes: []string{"x"}}, true},
	{"read of the upper bound of a range that was deleted", txn{writes: []string{"a~b"}}, txn{keys: []string{"b"}, writes: []string{"x"}}, false},
	{"range: it was deleted", txn{writes: []string{"a~z"}}, txn{ranges: [][2]string{{"b", "c"}}, writes: []string{"x"}}, true},
	{"range: a part of it was deleted", txn{writes: []string{"c~d"}}, txn{ranges: [][2]string{{"a", "e"}}, writes: []string{"x"}}, true},
	{"range: the range after it was deleted", txn{writes: []string{"e~z"}}, txn{ranges: [][2]string{{"a", "e"}}, writes: []string{"x"}}, false},
	{"blind deletes of ranges", txn{writes: []string{"a~z"}}, txn{writes: []string{"b~c"}}, false},
	{"snapshot: a key of a range that was deleted", txn{iso: SnapshotIsolation, writes: []string{"a~c"}}, txn{iso: SnapshotIsolation, writes: []string{"b"}}, true},
	{"snapshot: the delete of a range with a key that was written", txn{iso: SnapshotIsolation, writes: []string{"b"}}, txn{iso: SnapshotIsolation, writes: []string{"x", "a~c"}}, true},
	{"snapshot: the deletes of ranges that meet", txn{iso: SnapshotIsolation, writes: []string{"a~c"}}, txn{iso: SnapshotIsolation, writes: []string{"b~d"}}, true},
	{"snapshot: the deletes of ranges apart", txn{iso: SnapshotIsolation, writes: []string{"a~b"}}, txn{iso: SnapshotIsolation, writes: []string{"c~d"}}, false},
	{"last writer wins", txn{iso: LastWriterWins, writes: []string{"b"}}, txn{iso: LastWriterWins, keys: []string{"b"}, ranges: [][2]string{{"a", "z"}}, writes: []string{"b"}}, false},
}

func TestConflicts(t *testing.T) {
	for _, tc := range conflicts {
		for _, grouped := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/same group %v", tc.name, grouped), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := newMemory()
					p := start(m)
					commit(t, p, request(0, LastWriterWins, "b", "d"))
					first, second := tc.first.request(1), tc.second.request(1)
					var res []*result
					if grouped {
						// Another transaction in between gets a version all the same.
						res = together(p, first, request(1, Serializable, "other"), second)
						wantVersion(t, res[1], 3)
					} else {
						res = append(res, background(context.Background(), p, first),
							background(context.Background(), p, request(1, Serializable, "other")),
							background(context.Background(), p, second))
					}
					wantVersion(t, res[0], 2)
					if !tc.conflict {
						wantVersion(t, res[2], 4)
						return
					}
					if !errors.Is(res[2].err, errs.ErrConflict) || res[2].version != 0 {
						t.Errorf("got %+v, want a conflict", res[2])
					}
					for k, vs := range m.keys {
						if vs[len(vs)-1].version > 3 {
							t.Errorf("%q of the refused transaction was written", k)
						}
					}
					// Seen afresh, it passes.
					again := tc.second.request(3)
					wantVersion(t, background(context.Background(), p, again), 4)
				})
			})
		}
	}
}

// A transaction that was refused writes nothing, so it refuses nobody.
func TestRefusedTransactionIsNoConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(newMemory())
		commit(t, p, request(0, LastWriterWins, "b"))
		reader := request(1, Serializable, "z")
		reader.Check.Reads = reads([]string{"x"}, [][2]string{{"w", "y"}})
		res := together(p, request(0, SnapshotIsolation, "b", "x"), reader, request(1, SnapshotIsolation, "x"))
		if !errors.Is(res[0].err, errs.ErrConflict) {
			t.Errorf("got %+v", res[0])
		}
		wantVersion(t, res[1], 2)
		wantVersion(t, res[2], 3)
	})
}

// The index of a group agrees with a look at all of its records, however checks
// and transactions alternate.
func TestWritesAgreeWithANaiveSearch(t *testing.T) {
	seed := draw.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for trial := range 200 {
		m := newMemory()
		w := groupWrites{store: m, seed: testSeed}
		for round := range 3 {
			var before []*Request
			all := map[string]entry.Version{}
			space := 1 + rnd.IntN(400)
			longest := 20
			if trial == 0 && round < 2 {
				space, longest = 1000, keptKeys // an index too large to be kept
			}
			key := func() string { return fmt.Sprintf("%03d", rnd.IntN(space)) }
			for v := range 1 + rnd.IntN(60) {
				var keys []string
				for range 1 + rnd.IntN(1+rnd.IntN(longest)) {
					keys = append(keys, key())
					all[keys[len(keys)-1]] = entry.Version(v + 1)
				}
				r := request(0, LastWriterWins, keys...)
				r.version = entry.Version(v + 1)
				before = append(before, r)
				w.before = before
				for range rnd.IntN(3) {
					k := []byte(key())
					got, ok, _ := w.Newest(k, checksum.HashKey(testSeed, k), 0)
					if want := all[string(k)]; got != want || ok != (want > 0) {
						t.Fatalf("round %d: newest of %s is %d, %v; want %d; seed %d", round, k, got, ok, want, seed)
					}
				}
				for range rnd.IntN(3) {
					lo, hi := []byte(key()), []byte(key())
					if rnd.IntN(8) == 0 {
						hi = nil
					}
					want := false
					for k := range all {
						want = want || bytes.Compare([]byte(k), lo) >= 0 && (hi == nil || bytes.Compare([]byte(k), hi) < 0)
					}
					if got, _ := w.ChangedSince(lo, hi, 0); got != want {
						t.Fatalf("round %d: changed in [%s, %s) is %v; seed %d", round, lo, hi, got, seed)
					}
				}
			}
			w.forgetGroup()
		}
	}
}

// A committer who asks for changes in ranges has them sorted before the turn: the leader
// sorts nothing.
func TestRangesAreSortedBeforeTheTurn(t *testing.T) {
	m := newMemory()
	p := start(m)
	for _, test := range []struct {
		txn   txn
		sorts bool
	}{
		{txn: txn{keys: []string{"b"}, writes: []string{"x"}}},
		{txn: txn{ranges: [][2]string{{"a", "c"}}, writes: []string{"x"}}, sorts: true},
		{txn: txn{iso: SnapshotIsolation, writes: []string{"y"}}},
		{txn: txn{iso: SnapshotIsolation, writes: []string{"y~z"}}, sorts: true},
		{txn: txn{iso: LastWriterWins, writes: []string{"y~z"}}},
	} {
		m.trace, m.steps = true, nil
		if _, err := p.Commit(t.Context(), test.txn.request(m.published)); err != nil {
			t.Fatalf("%+v: %v", test.txn, err)
		}
		if sorts := strings.HasPrefix(m.steps[0], "sort since"); sorts != test.sorts {
			t.Errorf("%+v: %q", test.txn, m.steps)
		}
	}
}

// To check a group allocates nothing for each of its transactions.
func TestChecksAllocateNothing(t *testing.T) {
	p := New(Config{Store: new(void), Journal: new(void), HashSeed: testSeed})
	var members []*Request
	for i := range 64 {
		r := request(0, Serializable, fmt.Sprintf("w%06d", i))
		r.Check.Reads = reads([]string{fmt.Sprintf("w%06d", i)}, nil)
		members = append(members, r)
	}
	allocs := testing.AllocsPerRun(10, func() {
		p.leader.decideMembers(members)
		p.leader.forgetGroup()
	})
	if allocs != 0 {
		t.Errorf("%v allocations for a group of %d", allocs, len(members))
	}
}
