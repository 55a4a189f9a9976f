package mixed

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// place is a keyspace and a key in it.
type place struct {
	side bool // the keyspace "side", else the default one
	key  string
}

// state is the pairs of a store.
type state map[place]string

// text shows a state; long values by their beginning and length.
func (s state) text() string {
	var out []string
	for _, p := range slices.SortedFunc(maps.Keys(s), comparePlaces) {
		v := s[p]
		if len(v) > 24 {
			v = fmt.Sprintf("%s...%d %s", v[:8], len(v), v[len(v)-8:])
		}
		out = append(out, fmt.Sprintf("%v:%q=%q", p.side, p.key, v))
	}
	return strings.Join(out, " ")
}

func comparePlaces(a, b place) int {
	if a.side != b.side {
		if a.side {
			return 1
		}
		return -1
	}
	return cmp.Compare(a.key, b.key)
}

// The kinds of writes.
const (
	set = iota
	remove
	removeRange
	apply
	versioned
)

// write is one write of a command.
type write struct {
	place        // of a range its lower bound, of a versioned set the prefix
	kind  int    // see above
	hi    string // upper bound; none if it is empty
	value string // or operand
	op    brock.Op
}

// part is what a command writes as one version, and what it has read before.
type part struct {
	version uint64
	writes  []write
	in      write // the range that it has read; seen is nil if it has not
	seen    state
}

// do changes s as w does, as the n-th versioned set of the version v.
func (s state) do(w write, v uint64, n int) {
	switch w.kind {
	case set:
		s[w.place] = w.value
	case remove:
		delete(s, w.place)
	case removeRange:
		maps.DeleteFunc(s, func(p place, _ string) bool { return w.covers(p) })
	case versioned:
		key := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64([]byte(w.key), v), uint32(n))
		s[place{w.side, string(key)}] = w.value
	case apply:
		old, found := s[w.place]
		if now, has := compute(w.op, old, found, w.value); has {
			s[w.place] = now
		} else {
			delete(s, w.place)
		}
	}
}

// within returns what a range, like that of a removeRange, has.
func (s state) within(in write) state {
	part := maps.Clone(s)
	maps.DeleteFunc(part, func(p place, _ string) bool { return !in.covers(p) })
	return part
}

func (w *write) covers(p place) bool {
	return p.side == w.side && p.key >= w.key && (w.hi == "" || p.key < w.hi)
}

// commit changes s as the part does.
func (s state) commit(p part) {
	n := 0
	// Versioned keys come last: a range delete of their transaction does not cover them.
	for _, w := range p.writes {
		if w.kind != versioned {
			s.do(w, p.version, 0)
		}
	}
	for _, w := range p.writes {
		if w.kind == versioned {
			s.do(w, p.version, n)
			n++
		}
	}
}

// compute is what an operation gives. All values fit.
func compute(op brock.Op, old string, found bool, operand string) (string, bool) {
	switch {
	case op == brock.OpClearIf:
		return old, found && old != operand
	case !found:
		return operand, true
	case op == brock.OpAppend:
		return old + operand, true
	}
	a, b := readNumber(old), readNumber(operand)
	switch op {
	case brock.OpAdd:
		a += b
	case brock.OpMin:
		a = min(a, b)
	case brock.OpMax:
		a = max(a, b)
	case brock.OpOr:
		a |= b
	case brock.OpAnd:
		a &= b
	}
	return number(a), true
}

func number(n int64) string { return string(binary.LittleEndian.AppendUint64(nil, uint64(n))) }

func readNumber(s string) int64 { return int64(binary.LittleEndian.Uint64([]byte(s))) }

// Keys from "t" on have text, those before, the empty one among them, numbers.
var (
	keys   = []string{"", "n1", "n2", "n3", "t", "t1", "t2"}
	bounds = []string{"", "n2", "n3", "q", "r", "t", "t2", "u"}
	texts  = []string{"", "a", "b"}
)

func drawPlace(r *rand.Rand) place { return place{r.IntN(2) == 0, keys[r.IntN(len(keys))]} }

// drawBounds draws the bounds of a range, which is not empty.
func drawBounds(r *rand.Rand) (lo, hi string) {
	i := r.IntN(len(bounds))
	lo = bounds[i]
	if j := i + 1 + r.IntN(len(bounds)-i); j < len(bounds) {
		hi = bounds[j]
	}
	return lo, hi
}

// drawWrite draws a write; a plain one is neither an operation nor a versioned set.
func drawWrite(r *rand.Rand, plain bool) write {
	w := write{place: drawPlace(r), kind: set}
	isText := w.key >= "t"
	if n := r.IntN(20); n < 3 {
		w.kind = remove
		return w
	} else if n == 3 {
		w.kind = removeRange
		w.key, w.hi = drawBounds(r)
		return w
	} else if n < 8 || plain {
		w.value = drawValue(r, isText)
		return w
	} else if n == 8 {
		w.kind, w.key, w.value = versioned, []string{"", "q"}[r.IntN(2)], drawValue(r, true)
		return w
	}
	w.kind = apply
	if w.op = brock.OpAdd + brock.Op(r.IntN(5)); isText {
		w.op = brock.OpAppend
	}
	if r.IntN(4) == 0 {
		w.op = brock.OpClearIf
	}
	if w.value = number(r.Int64N(4)); isText {
		w.value = texts[r.IntN(len(texts))]
	}
	return w
}

func drawValue(r *rand.Rand, isText bool) string {
	switch {
	case !isText:
		return number(r.Int64N(4))
	case r.IntN(3) > 0:
		return texts[r.IntN(len(texts))]
	case r.IntN(2) == 0: // separated and compressed
		return strings.Repeat("long ", 30+r.IntN(200))
	}
	return string(storetest.RandomBytes(r.IntN(1000), 200+r.IntN(1500)))
}

// store is a store with two keyspaces.
type store struct {
	*brock.DB
	side *brock.Keyspace
}

func openStore(t *testing.T, o brock.Options) *store {
	db := assert.Must(brock.Open(o))
	return &store{db, assert.Must(db.Keyspace("side"))}
}

// keyspace returns one of the two.
func (s *store) keyspace(side bool) *brock.Keyspace {
	if side {
		return s.side
	}
	return s.Default()
}

// read returns the pairs that a transaction sees.
func (s *store) read(t *testing.T, o brock.TxnOptions) state {
	t.Helper()
	got := state{}
	assert.OK(t, s.ViewContext(t.Context(), o, func(txn *brock.Txn) error {
		for _, side := range []bool{false, true} {
			for item, err := range txn.In(s.keyspace(side)).All() {
				assert.OK(t, err)
				got[place{side, string(item.Key())}] = string(assert.Must(item.Value()))
			}
		}
		return nil
	}))
	return got
}

// readRange returns the pairs of a range that a transaction sees.
func (s *store) readRange(txn *brock.Txn, in write) (state, error) {
	got := state{}
	for item, err := range txn.In(s.keyspace(in.side)).Range(bound(in.key), bound(in.hi)) {
		if err != nil {
			return nil, err
		}
		value, err := item.ValueCopy(nil)
		if err != nil {
			return nil, err
		}
		got[place{in.side, string(item.Key())}] = string(value)
	}
	return got, nil
}

// bound is a bound as the API has it.
func bound(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

// writeTxn does a write in a transaction.
func (s *store) writeTxn(txn *brock.Txn, w write) error {
	txn = txn.In(s.keyspace(w.side))
	switch w.kind {
	case set:
		return txn.Set([]byte(w.key), []byte(w.value))
	case remove:
		return txn.Delete([]byte(w.key))
	case removeRange:
		return txn.DeleteRange(bound(w.key), bound(w.hi))
	case versioned:
		return txn.SetVersioned([]byte(w.key), []byte(w.value))
	}
	return txn.Apply(w.op, []byte(w.key), []byte(w.value))
}

// writeBatch does a write in a batch, which has no operations.
func (s *store) writeBatch(b *brock.Batch, w write) error {
	b = b.In(s.keyspace(w.side))
	switch w.kind {
	case set:
		return b.Set([]byte(w.key), []byte(w.value))
	case remove:
		return b.Delete([]byte(w.key))
	case removeRange:
		return b.DeleteRange(bound(w.key), bound(w.hi))
	}
	return b.SetVersioned([]byte(w.key), []byte(w.value))
}

// showWrites shows writes in one line.
func showWrites(writes []write) string {
	var out []string
	for _, w := range writes {
		out = append(out, fmt.Sprintf("%s %v:%q-%q %v %.20q", [...]string{"set", "remove", "removeRange", "apply", "versioned"}[w.kind], w.side, w.key, w.hi, w.op, w.value))
	}
	return strings.Join(out, ", ")
}
