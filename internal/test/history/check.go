package history

import (
	"fmt"
	"slices"
	"strings"
)

// Level is an isolation level that Check looks for breaches of.
type Level uint8

// The levels. At each of them real time counts, too: a transaction sees all commits
// that ended before it began.
const (
	SnapshotIsolation  Level = iota // allows cycles with two rw edges in a row
	StrictSerializable              // allows no cycles
)

// Kind is the name of an anomaly: Adya's (Weak Consistency, MIT 1999) and Elle's.
type Kind string

// The anomalies of single reads, and Ambiguous, a fault of the test.
const (
	Ambiguous         Kind = "ambiguous append"   // the same value twice to one key
	Internal          Kind = "internal"           // contradicts the transaction's own operations before
	Garbage           Kind = "garbage read"       // of a value that nobody appended
	Duplicate         Kind = "duplicate"          // a value twice in one list
	AbortedRead       Kind = "G1a"                // of a value whose transaction was aborted
	IntermediateRead  Kind = "G1b"                // of a list that another transaction was still appending to
	IncompatibleOrder Kind = "incompatible order" // two reads of which neither is a prefix of the other
)

// The anomalies that are cycles of transactions. "-realtime" follows if the cycle
// has an edge of real time.
const (
	WriteCycle       Kind = "G0"            // ww only
	InformationCycle Kind = "G1c"           // ww and wr
	ReadSkew         Kind = "G-single"      // one rw
	NonadjacentSkew  Kind = "G-nonadjacent" // several rw, no two in a row
	WriteSkew        Kind = "G2"            // several rw
	realtime              = Kind("-realtime")
)

// Anomaly is one way in which a history breaks its level.
type Anomaly struct {
	Kind Kind
	Txns []int // indexes into the history; for a cycle, in its order
	Text string
}

// String is the kind and the explanation.
func (a Anomaly) String() string { return string(a.Kind) + ": " + a.Text }

// Check returns the anomalies of h that level forbids: all anomalies of single
// reads. If there are none it returns, for each knot of transactions, a shortest
// cycle of the worst kind.
func Check(h []Txn, level Level) []Anomaly {
	o := observe(h)
	if len(o.anomalies) > 0 {
		return o.anomalies
	}
	g := newGraph(o)
	var out []Anomaly
	for _, knot := range g.knots() {
		if a, ok := g.worst(knot, level); ok {
			out = append(out, a)
		}
	}
	return out
}

// observed is what the reads of a history say, each read by itself.
type observed struct {
	txns      []Txn
	writers   map[string]map[int]writer // key -> value -> who appended it
	order     map[string][]int          // key -> longest list read of it
	unreadOf  map[string][]int          // key -> what graph.go's unread found
	committed []bool
	anomalies []Anomaly
}

type writer struct {
	txn  int
	last bool // the transaction's last append to the key
}

func (o *observed) report(k Kind, txns []int, format string, args ...any) {
	o.anomalies = append(o.anomalies, Anomaly{k, txns, fmt.Sprintf(format, args...)})
}

// observe finds which transaction wrote which value, and in which order.
func observe(h []Txn) *observed {
	o := &observed{
		txns:      h,
		writers:   map[string]map[int]writer{},
		order:     map[string][]int{},
		unreadOf:  map[string][]int{},
		committed: make([]bool, len(h)),
	}
	for i, x := range h {
		o.committed[i] = x.Status == Committed
		o.indexAppends(i, x)
	}
	o.adoptUnknown()
	for i, x := range h {
		if o.committed[i] {
			o.checkInternal(i, x)
			for _, r := range x.externalReads() {
				o.checkRead(i, r)
			}
		}
	}
	if len(o.anomalies) == 0 {
		o.findOrder()
	}
	return o
}

func (o *observed) indexAppends(i int, x Txn) {
	last := map[string]int{}
	for _, op := range x.Ops {
		if op.Read {
			continue
		}
		m := o.writers[op.Key]
		if m == nil {
			m = map[int]writer{}
			o.writers[op.Key] = m
		}
		if w, ok := m[op.Value]; ok {
			o.report(Ambiguous, []int{w.txn, i}, "T%d and T%d both append %d to %s, so reads of it say nothing", w.txn, i, op.Value, op.Key)
			continue
		}
		if before, ok := last[op.Key]; ok {
			m[before] = writer{i, false}
		}
		m[op.Value] = writer{i, true}
		last[op.Key] = op.Value
	}
}

// adoptUnknown counts transactions of unknown end as committed if a committed one
// has read from them, and repeats this for those.
func (o *observed) adoptUnknown() {
	var visit func(i int)
	visit = func(i int) {
		for _, op := range o.txns[i].Ops {
			for _, v := range op.List {
				w, ok := o.writers[op.Key][v]
				if ok && !o.committed[w.txn] && o.txns[w.txn].Status == Unknown {
					o.committed[w.txn] = true
					visit(w.txn)
				}
			}
		}
	}
	for i, x := range o.txns {
		if x.Status == Committed {
			visit(i)
		}
	}
}

// checkInternal compares each read with the transaction's own operations before it.
func (o *observed) checkInternal(i int, x Txn) {
	known := map[string][]int{} // list as of the last read, and the appends since
	whole := map[string]bool{}  // there was such a read
	for _, op := range x.Ops {
		switch {
		case !op.Read:
			known[op.Key] = append(slices.Clip(known[op.Key]), op.Value)
		case whole[op.Key] && !slices.Equal(op.List, known[op.Key]),
			!whole[op.Key] && !hasSuffix(op.List, known[op.Key]):
			o.report(Internal, []int{i}, "T%d read %s = %v, which its operations before say ends with %v", i, op.Key, op.List, known[op.Key])
			return
		default:
			known[op.Key], whole[op.Key] = op.List, true
		}
	}
}

// externalReads returns x's first read of each key, without x's own appends: what it
// has seen of others.
func (x Txn) externalReads() []Op {
	var out []Op
	own := map[string]int{}
	seen := map[string]bool{}
	for _, op := range x.Ops {
		if !op.Read {
			own[op.Key]++
		} else if !seen[op.Key] {
			seen[op.Key] = true
			out = append(out, Op{Key: op.Key, Read: true, List: op.List[:max(0, len(op.List)-own[op.Key])]})
		}
	}
	return out
}

func (o *observed) checkRead(i int, r Op) {
	seen := map[int]bool{}
	for _, v := range r.List {
		w, ok := o.writers[r.Key][v]
		switch {
		case seen[v]:
			o.report(Duplicate, []int{i}, "T%d read %s = %v with %d twice", i, r.Key, r.List, v)
		case !ok:
			o.report(Garbage, []int{i}, "T%d read %s = %v; nobody appended %d", i, r.Key, r.List, v)
		case o.txns[w.txn].Status == Aborted:
			o.report(AbortedRead, []int{w.txn, i}, "T%d read %s = %v, where %d is of T%d, which was aborted", i, r.Key, r.List, v, w.txn)
		}
		seen[v] = true
	}
	if n := len(r.List); n > 0 {
		if w, ok := o.writers[r.Key][r.List[n-1]]; ok && !w.last && w.txn != i {
			o.report(IntermediateRead, []int{w.txn, i}, "T%d read %s = %v; T%d appended more to it after %d", i, r.Key, r.List, w.txn, r.List[n-1])
		}
	}
}

// findOrder sets the order of each key to the longest list that was read. All other
// lists must be a prefix of it.
func (o *observed) findOrder() {
	by := map[string]int{}
	each := func(fn func(i int, r Op)) {
		for i, x := range o.txns {
			if o.committed[i] {
				for _, r := range x.externalReads() {
					fn(i, r)
				}
			}
		}
	}
	each(func(i int, r Op) {
		if len(r.List) > len(o.order[r.Key]) {
			o.order[r.Key], by[r.Key] = r.List, i
		}
	})
	each(func(i int, r Op) {
		if longest := o.order[r.Key]; !slices.Equal(r.List, longest[:len(r.List)]) {
			o.report(IncompatibleOrder, []int{by[r.Key], i}, "T%d read %s = %v, T%d read %v", by[r.Key], r.Key, longest, i, r.List)
		}
	})
}

func hasSuffix(list, end []int) bool {
	return len(list) >= len(end) && slices.Equal(list[len(list)-len(end):], end)
}

// Text returns the anomalies, a line each.
func Text(as []Anomaly) string {
	var b strings.Builder
	for _, a := range as {
		fmt.Fprintln(&b, a)
	}
	return b.String()
}
