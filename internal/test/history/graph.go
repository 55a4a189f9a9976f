package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// dependency says why one transaction comes before another.
type dependency uint8

const (
	ww dependency = 1 << iota // the other appended the next value
	wr                        // the other read what this appended last
	rw                        // the other appended a value that this one did not see
	rt                        // this had ended when the other began
)

type edge struct {
	to  int
	dep dependency
	key string
	at  int // the value appended, for ww and rw; the last value read, for wr
}

// graph holds the committed transactions and the edges that order them.
type graph struct {
	out [][]edge
}

func newGraph(o *observed) *graph {
	g := &graph{out: make([][]edge, len(o.txns))}
	g.addWrites(o)
	g.addReads(o)
	g.addRealTime(o)
	return g
}

func (g *graph) add(from int, e edge) {
	if from == e.to || slices.ContainsFunc(g.out[from], func(f edge) bool { return f.to == e.to && f.dep == e.dep }) {
		return
	}
	g.out[from] = append(g.out[from], e)
}

// addWrites adds an edge from each append to the next one of its key. Appends that
// nobody has read come after all others, in unknown order.
func (g *graph) addWrites(o *observed) {
	for _, key := range slices.Sorted(maps.Keys(o.writers)) {
		order := o.order[key]
		for i := 1; i < len(order); i++ {
			g.add(o.writers[key][order[i-1]].txn, edge{o.writers[key][order[i]].txn, ww, key, order[i]})
		}
		if len(order) == 0 {
			continue
		}
		for _, v := range o.unread(key) {
			g.add(o.writers[key][order[len(order)-1]].txn, edge{o.writers[key][v].txn, ww, key, v})
		}
	}
}

// addReads puts each reader behind the append that it saw last and before the
// next one.
func (g *graph) addReads(o *observed) {
	for i, x := range o.txns {
		if !o.committed[i] {
			continue
		}
		for _, r := range x.externalReads() {
			writers, order, n := o.writers[r.Key], o.order[r.Key], len(r.List)
			if n > 0 {
				g.add(writers[r.List[n-1]].txn, edge{i, wr, r.Key, r.List[n-1]})
			}
			if n < len(order) {
				g.add(i, edge{writers[order[n]].txn, rw, r.Key, order[n]})
				continue
			}
			for _, v := range o.unread(r.Key) {
				g.add(i, edge{writers[v].txn, rw, r.Key, v})
			}
		}
	}
}

// unread returns the values that were appended to key by committed transactions
// but are in no list that was read.
func (o *observed) unread(key string) []int {
	if vs, ok := o.unreadOf[key]; ok {
		return vs
	}
	read := map[int]bool{}
	for _, v := range o.order[key] {
		read[v] = true
	}
	var out []int
	for v, w := range o.writers[key] {
		if o.committed[w.txn] && !read[v] {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	o.unreadOf[key] = out
	return out
}

// addRealTime orders transactions that did not overlap. It leaves out an edge that
// follows from two others: frontier holds the transactions that have ended, without
// those that had ended before another one of frontier began.
func (g *graph) addRealTime(o *observed) {
	type event struct {
		at, txn int
		end     bool
	}
	var events []event
	for i, x := range o.txns {
		if o.committed[i] {
			events = append(events, event{x.Begin, i, false})
			if x.Status == Committed {
				events = append(events, event{x.End, i, true})
			}
		}
	}
	slices.SortStableFunc(events, func(a, b event) int {
		if a.at == b.at && a.end != b.end {
			if b.end {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.at, b.at)
	})
	var frontier []int
	before := make([][]int, len(o.txns))
	for _, e := range events {
		if !e.end {
			before[e.txn] = slices.Clone(frontier)
			for _, f := range frontier {
				g.add(f, edge{to: e.txn, dep: rt})
			}
			continue
		}
		frontier = slices.DeleteFunc(frontier, func(f int) bool { return slices.Contains(before[e.txn], f) })
		frontier = append(frontier, e.txn)
	}
}

// knots returns the strongly connected components of two or more transactions
// (Tarjan, "Depth-first search and linear graph algorithms", SIAM J. Comput. 1972).
func (g *graph) knots() [][]int {
	var (
		out   [][]int
		stack []int
		next  = 1
		index = make([]int, len(g.out)) // 0 = not visited
		low   = make([]int, len(g.out))
		on    = make([]bool, len(g.out))
		visit func(v int)
	)
	visit = func(v int) {
		index[v], low[v] = next, next
		next++
		stack, on[v] = append(stack, v), true
		for _, e := range g.out[v] {
			if index[e.to] == 0 {
				visit(e.to)
				low[v] = min(low[v], low[e.to])
			} else if on[e.to] {
				low[v] = min(low[v], index[e.to])
			}
		}
		if low[v] != index[v] {
			return
		}
		at := slices.Index(stack, v)
		knot := slices.Clone(stack[at:])
		stack = stack[:at]
		for _, m := range knot {
			on[m] = false
		}
		if len(knot) > 1 {
			slices.Sort(knot)
			out = append(out, knot)
		}
	}
	for v := range g.out {
		if index[v] == 0 {
			visit(v)
		}
	}
	return out
}

// shape describes the cycles of a kind: the dependency of the first edge, and those
// of the other edges.
type shape struct {
	kind        Kind
	first       dependency
	rest        dependency
	nonadjacent bool // no two rw in a row
}

var shapes = []shape{ // worst first
	{WriteCycle, ww, ww, false},
	{InformationCycle, wr, ww | wr, false},
	{ReadSkew, rw, ww | wr, false},
	{NonadjacentSkew, rw, ww | wr | rw, true},
	{WriteSkew, rw, ww | wr | rw, false},
}

// worst returns a shortest cycle of the worst kind in the knot that level forbids.
func (g *graph) worst(knot []int, level Level) (Anomaly, bool) {
	for _, more := range []dependency{0, rt} {
		for _, s := range shapes {
			if level == SnapshotIsolation && s.kind == WriteSkew {
				continue
			}
			if more == rt {
				s.rest |= rt
				s.kind += realtime
			}
			if from, path := g.shortest(knot, s); path != nil {
				return describe(s.kind, from, path), true
			}
		}
	}
	return Anomaly{}, false
}

// shortest returns where a shortest cycle of this shape begins, and its edges.
func (g *graph) shortest(knot []int, s shape) (from int, path []edge) {
	in := map[int]bool{}
	for _, v := range knot {
		in[v] = true
	}
	for _, v := range knot {
		for _, e := range g.out[v] {
			if e.dep&s.first == 0 || !in[e.to] {
				continue
			}
			limit := len(knot) + 1
			if path != nil {
				limit = len(path)
			}
			if p := g.back(v, e, in, s, limit); p != nil {
				from, path = v, p
			}
		}
	}
	return from, path
}

// back returns a shortest way from e back to its origin that makes a cycle of
// this shape with fewer than limit edges, e included.
func (g *graph) back(origin int, e edge, in map[int]bool, s shape, limit int) []edge {
	type state struct {
		txn int
		rw  bool // reached by an rw edge, so another rw may not follow
	}
	type step struct {
		via      edge
		previous int // in steps
		state    state
	}
	start := state{e.to, s.nonadjacent && e.dep == rw}
	steps := []step{{e, -1, start}}
	seen := map[state]bool{start: true}
	end := 1 // of the steps of this length
	length := 1
	for i := 0; i < len(steps); i++ {
		if i == end {
			end, length = len(steps), length+1
		}
		if length+1 >= limit {
			return nil
		}
		for _, next := range g.out[steps[i].state.txn] {
			if next.dep&s.rest == 0 || !in[next.to] || steps[i].state.rw && next.dep == rw {
				continue
			}
			to := state{next.to, s.nonadjacent && next.dep == rw}
			if next.to == origin {
				if to.rw {
					continue // the first edge is an rw too
				}
				path := []edge{next}
				for at := i; at >= 0; at = steps[at].previous {
					path = append(path, steps[at].via)
				}
				slices.Reverse(path)
				return path
			}
			if !seen[to] {
				seen[to] = true
				steps = append(steps, step{next, i, to})
			}
		}
	}
	return nil
}

func describe(kind Kind, from int, path []edge) Anomaly {
	a := Anomaly{Kind: kind}
	at := from
	for _, e := range path {
		a.Txns = append(a.Txns, at)
		switch e.dep {
		case ww:
			a.Text += fmt.Sprintf("T%d appended to %s before T%d appended %d; ", at, e.key, e.to, e.at)
		case wr:
			a.Text += fmt.Sprintf("T%d appended %d to %s, which T%d read; ", at, e.at, e.key, e.to)
		case rw:
			a.Text += fmt.Sprintf("T%d read %s without the %d of T%d; ", at, e.key, e.at, e.to)
		case rt:
			a.Text += fmt.Sprintf("T%d ended before T%d began; ", at, e.to)
		}
		at = e.to
	}
	a.Text = a.Text[:len(a.Text)-2]
	return a
}
