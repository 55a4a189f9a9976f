package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/brockdb/brock/internal/test/kit/draw"
)

// at makes a committed transaction that begins and ends at these points in time.
func at(begin, end int, ops ...Op) Txn {
	return Txn{Ops: ops, Status: Committed, Begin: begin, End: end}
}

// anytime makes a committed transaction that overlaps all others of its kind.
func anytime(ops ...Op) Txn { return at(0, 1000, ops...) }

func ended(s Status, x Txn) Txn {
	x.Status = s
	return x
}

func TestPlantedAnomalies(t *testing.T) {
	for _, tc := range []struct {
		name             string
		history          []Txn
		snapshot, strict Kind // "" = none
		txns             []int
	}{
		{"nothing", nil, "", "", nil},
		{"in order", []Txn{
			at(1, 2, Append("x", 1)),
			at(3, 4, Read("x", 1), Append("x", 2)),
			at(5, 6, Read("x", 1, 2)),
		}, "", "", nil},
		{"side by side in another order", []Txn{
			anytime(Read("x", 1), Append("x", 2)),
			anytime(Append("x", 1)),
			anytime(Read("x")),
		}, "", "", nil},
		{"own writes", []Txn{
			anytime(Append("x", 1), Read("x", 9, 1), Append("x", 2), Read("x", 9, 1, 2)),
			anytime(Append("x", 9)),
		}, "", "", nil},
		{"an unread append is nobody's fault", []Txn{
			anytime(Append("x", 1)),
			anytime(Append("x", 2)),
			anytime(Read("x", 1)),
		}, "", "", nil},
		{"aborted and unseen", []Txn{
			ended(Aborted, at(1, 2, Append("x", 1))),
			at(3, 4, Read("x")),
		}, "", "", nil},
		{"unknown and unseen", []Txn{
			ended(Unknown, at(1, 0, Append("x", 1))),
			at(3, 4, Read("x")),
		}, "", "", nil},
		{"unknown and seen later", []Txn{
			ended(Unknown, at(1, 0, Append("x", 1))),
			at(3, 4, Read("x")),
			at(5, 6, Read("x", 1)),
		}, "", "", nil},

		{"own write not seen", []Txn{
			anytime(Append("x", 1), Read("x")),
		}, Internal, Internal, []int{0}},
		{"unrepeatable read", []Txn{
			anytime(Read("x"), Read("x", 1)),
			anytime(Append("x", 1)),
		}, Internal, Internal, []int{0}},
		{"garbage", []Txn{
			anytime(Read("x", 7)),
		}, Garbage, Garbage, []int{0}},
		{"twice", []Txn{
			anytime(Append("x", 1)),
			anytime(Read("x", 1, 1)),
		}, Duplicate, Duplicate, []int{1}},
		{"the test appends twice", []Txn{
			anytime(Append("x", 1)),
			anytime(Append("x", 1)),
		}, Ambiguous, Ambiguous, []int{0, 1}},
		{"G1a", []Txn{
			ended(Aborted, anytime(Append("x", 1))),
			anytime(Read("x", 1)),
		}, AbortedRead, AbortedRead, []int{0, 1}},
		{"G1b", []Txn{
			anytime(Append("x", 1), Append("x", 2)),
			anytime(Read("x", 1)),
		}, IntermediateRead, IntermediateRead, []int{0, 1}},
		{"half an unknown transaction", []Txn{
			ended(Unknown, at(0, 0, Append("x", 1), Append("x", 2))),
			anytime(Read("x", 1)),
		}, IntermediateRead, IntermediateRead, []int{0, 1}},
		{"incompatible order", []Txn{
			anytime(Append("x", 1)),
			anytime(Append("x", 2)),
			anytime(Read("x", 1, 2)),
			anytime(Read("x", 2)),
		}, IncompatibleOrder, IncompatibleOrder, []int{2, 3}},

		{"G0", []Txn{
			anytime(Append("x", 1), Append("y", 1)),
			anytime(Append("x", 2), Append("y", 2)),
			anytime(Read("x", 1, 2), Read("y", 2, 1)),
		}, WriteCycle, WriteCycle, []int{0, 1}},
		{"G1c", []Txn{
			anytime(Append("x", 1), Read("y", 1)),
			anytime(Append("y", 1), Read("x", 1)),
		}, InformationCycle, InformationCycle, []int{0, 1}},
		{"read skew", []Txn{
			anytime(Read("x"), Read("y", 1)),
			anytime(Append("x", 1), Append("y", 1)),
		}, ReadSkew, ReadSkew, []int{0, 1}},
		{"half an unknown transaction is skew", []Txn{
			ended(Unknown, at(0, 0, Append("x", 1), Append("y", 1))),
			anytime(Read("x"), Read("y", 1)),
		}, ReadSkew, ReadSkew, []int{1, 0}},
		{"lost update", []Txn{
			anytime(Read("x"), Append("x", 1)),
			anytime(Read("x"), Append("x", 2)),
			anytime(Read("x", 2)),
		}, ReadSkew, ReadSkew, []int{0, 1}},
		{"long fork", []Txn{
			anytime(Append("x", 1)),
			anytime(Append("y", 1)),
			anytime(Read("x", 1), Read("y")),
			anytime(Read("x"), Read("y", 1)),
		}, NonadjacentSkew, NonadjacentSkew, []int{2, 1, 3, 0}},
		{"write skew", []Txn{
			anytime(Read("x"), Read("y"), Append("x", 1)),
			anytime(Read("x"), Read("y"), Append("y", 1)),
		}, "", WriteSkew, []int{0, 1}},
		{"write skew of three", []Txn{
			anytime(Read("x"), Append("y", 1)),
			anytime(Read("y"), Append("z", 1)),
			anytime(Read("z"), Append("x", 1)),
		}, "", WriteSkew, []int{0, 2, 1}},
		{"read-only anomaly", []Txn{
			at(1, 6, Read("x"), Read("y"), Append("y", 1)),
			at(2, 3, Read("x"), Append("x", 1)),
			at(4, 5, Read("x", 1), Read("y")),
		}, "", WriteSkew, nil},

		{"stale read", []Txn{
			at(1, 2, Append("x", 1)),
			at(3, 4, Read("x")),
		}, ReadSkew + realtime, ReadSkew + realtime, []int{1, 0}},
		{"read from the future", []Txn{
			at(1, 2, Read("x", 1)),
			at(3, 4, Append("x", 1)),
		}, InformationCycle + realtime, InformationCycle + realtime, []int{1, 0}},
		{"order of writes against time", []Txn{
			at(1, 2, Append("x", 2)),
			at(3, 4, Append("x", 1)),
			anytime(Read("x", 1, 2)),
		}, WriteCycle + realtime, WriteCycle + realtime, []int{1, 0}},
		{"a lost commit", []Txn{
			at(1, 2, Append("x", 1)),
			at(3, 4, Append("x", 2)),
			at(5, 6, Read("x", 1)),
		}, ReadSkew + realtime, ReadSkew + realtime, []int{2, 1}},
		{"two transactions apart in time", []Txn{
			at(1, 2, Append("x", 1)),
			at(3, 4, Append("y", 1)),
			at(5, 6, Read("y", 1)),
			at(7, 8, Read("x")),
		}, ReadSkew + realtime, ReadSkew + realtime, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for level, want := range map[Level]Kind{SnapshotIsolation: tc.snapshot, StrictSerializable: tc.strict} {
				got := Check(tc.history, level)
				if want == "" && len(got) == 0 {
					continue
				}
				if want == "" || len(got) != 1 || got[0].Kind != want || tc.txns != nil && !slices.Equal(got[0].Txns, tc.txns) {
					t.Errorf("level %d: got\n%swant %q of %v", level, Text(got), want, tc.txns)
				}
			}
		})
	}
}

func TestExplanation(t *testing.T) {
	got := Check([]Txn{
		at(1, 2, Append("x", 1), Append("y", 1)),
		at(3, 4, Read("x", 1), Append("x", 2)),
		at(5, 6, Read("x", 1)),
	}, StrictSerializable)
	want := "G-single-realtime: T2 read x without the 2 of T1; T1 ended before T2 began\n"
	if Text(got) != want {
		t.Errorf("got  %swant %s", Text(got), want)
	}
}

// A shortest cycle is found among longer ones, and each knot is reported.
func TestShortestCycle(t *testing.T) {
	h := []Txn{
		anytime(Read("a"), Append("b", 1)),
		anytime(Read("b"), Append("c", 1)),
		anytime(Read("c"), Append("a", 1), Append("d", 1)),
		anytime(Read("c"), Read("d"), Append("b", 2)),
		anytime(Read("b", 1, 2)),
		anytime(Read("p"), Append("q", 1)),
		anytime(Read("q"), Append("p", 1)),
	}
	got := Check(h, StrictSerializable)
	if len(got) != 2 || len(got[0].Txns) > 3 || len(got[1].Txns) != 2 {
		t.Errorf("got\n%s", Text(got))
	}
}

// serializable tries every order of the transactions. Check must agree with it.
func serializable(h []Txn) bool {
	var rest []int
	var optional []int
	for i, x := range h {
		switch x.Status {
		case Committed:
			rest = append(rest, i)
		case Unknown:
			optional = append(optional, i)
		}
	}
	for subset := range 1 << len(optional) {
		all := slices.Clone(rest)
		for b, i := range optional {
			if subset>>b&1 == 1 {
				all = append(all, i)
			}
		}
		if orderable(h, all, map[string][]int{}) {
			return true
		}
	}
	return false
}

func orderable(h []Txn, rest []int, state map[string][]int) bool {
	if len(rest) == 0 {
		return true
	}
next:
	for n, i := range rest {
		for _, j := range rest {
			if h[j].Status == Committed && h[j].End < h[i].Begin {
				continue next // j must come first
			}
		}
		after := map[string][]int{}
		for k, v := range state {
			after[k] = v
		}
		for _, op := range h[i].Ops {
			if !op.Read {
				after[op.Key] = append(slices.Clip(after[op.Key]), op.Value)
			} else if !slices.Equal(after[op.Key], op.List) {
				continue next
			}
		}
		if orderable(h, slices.Delete(slices.Clone(rest), n, n+1), after) {
			return true
		}
	}
	return false
}

// random runs transactions interleaved on a store that is wrong in many ways.
func random(rnd *rand.Rand) []Txn {
	h := make([]Txn, 1+rnd.IntN(5))
	keys := []string{"x", "y", "z"}[:1+rnd.IntN(3)]
	state := map[string][]int{}
	views := make([]map[string][]int, len(h))
	pending := make([][]Op, len(h))
	now, value := 0, 0
	running := []int{}
	for i := range h {
		running = append(running, i)
	}
	stale, snapshot := rnd.IntN(2) == 0, rnd.IntN(2) == 0
	for len(running) > 0 {
		i := running[rnd.IntN(len(running))]
		x := &h[i]
		now++
		if x.Begin == 0 {
			x.Begin = now
			views[i] = map[string][]int{}
			for k, v := range state {
				views[i][k] = slices.Clone(v)
			}
			if rnd.IntN(2) == 0 {
				continue
			}
		}
		if len(x.Ops) > 0 && rnd.IntN(3) == 0 || len(x.Ops) == 4 {
			x.End, x.Status = now, Committed
			if rnd.IntN(8) == 0 {
				x.Status = Status(rnd.IntN(3))
			}
			if x.Status != Aborted || rnd.IntN(8) == 0 {
				for _, op := range pending[i] {
					state[op.Key] = append(slices.Clip(state[op.Key]), op.Value)
				}
			}
			running = slices.DeleteFunc(running, func(j int) bool { return j == i })
			continue
		}
		k := keys[rnd.IntN(len(keys))]
		if rnd.IntN(2) == 0 {
			value++
			op := Append(k, value)
			x.Ops = append(x.Ops, op)
			pending[i] = append(pending[i], op)
			views[i][k] = append(slices.Clip(views[i][k]), value)
			continue
		}
		list := slices.Clone(views[i][k])
		if !snapshot {
			list = slices.Clone(state[k])
			for _, op := range pending[i] {
				if op.Key == k {
					list = append(list, op.Value)
				}
			}
		}
		if stale && len(list) > 0 && rnd.IntN(6) == 0 {
			list = list[:len(list)-1]
		}
		x.Ops = append(x.Ops, Read(k, list...))
	}
	return h
}

// Check finds an anomaly exactly if no serial order explains the history.
func TestCheckAgreesWithTryingEveryOrder(t *testing.T) {
	seed := draw.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	kinds := map[Kind]int{}
	for range 20_000 {
		h := random(rnd)
		got := Check(h, StrictSerializable)
		if want := serializable(h); want != (len(got) == 0) {
			t.Fatalf("seed %d: serializable is %v, but Check says\n%s%s", seed, want, Text(got), dump(h))
		}
		kind := Kind("none")
		if len(got) > 0 {
			kind = got[0].Kind
		} else if si := Check(h, SnapshotIsolation); len(si) > 0 {
			t.Fatalf("seed %d: serializable, but not snapshot isolation:\n%s%s", seed, Text(si), dump(h))
		}
		kinds[kind]++
	}
	t.Log(kinds)
	for _, k := range []Kind{"none", Internal, AbortedRead, ReadSkew, WriteSkew, ReadSkew + realtime} {
		if kinds[k] == 0 {
			t.Errorf("seed %d: no history had %q", seed, k)
		}
	}
}

func dump(h []Txn) string {
	s := ""
	for i, x := range h {
		s += fmt.Sprintf("T%d status %d, %d-%d:", i, x.Status, x.Begin, x.End)
		for _, op := range x.Ops {
			if op.Read {
				s += fmt.Sprintf(" r(%s %v)", op.Key, op.List)
			} else {
				s += fmt.Sprintf(" a(%s %d)", op.Key, op.Value)
			}
		}
		s += "\n"
	}
	return s
}

func TestRecorder(t *testing.T) {
	var r Recorder
	var mu sync.Mutex
	list := []int{}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				x := r.Begin()
				mu.Lock()
				x.Ops = append(x.Ops, Read("x", slices.Clone(list)...))
				if i%20 == 0 {
					list = append(list, 1000*g+i)
					x.Ops = append(x.Ops, Append("x", 1000*g+i))
				}
				mu.Unlock()
				r.End(x, Committed)
			}
		})
	}
	wg.Wait()
	r.Begin()
	h := r.History()
	if len(h) != 1601 || h[1600].Status != Unknown {
		t.Errorf("%d transactions, the last %+v", len(h), h[len(h)-1])
	}
	if got := Check(h, StrictSerializable); len(got) > 0 {
		t.Errorf("got\n%s", Text(got))
	}
}

func BenchmarkCheck(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 1))
	state := map[string][]int{}
	var h []Txn
	for i := range 10_000 {
		x := at(8*i, 8*i+rnd.IntN(64))
		for range 4 {
			k := fmt.Sprint(i/500, ".", rnd.IntN(10))
			x.Ops = append(x.Ops, Read(k, slices.Clone(state[k])...))
			if rnd.IntN(4) == 0 {
				state[k] = append(slices.Clip(state[k]), i*4+len(x.Ops))
				x.Ops = append(x.Ops, Append(k, i*4+len(x.Ops)))
			}
		}
		h = append(h, x)
	}
	for b.Loop() {
		Check(h, StrictSerializable)
	}
}
