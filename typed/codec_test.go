package typed_test

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/corpus"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/typed"
)

var rewrite = flag.Bool("rewrite", false, "write the golden file anew")

// dump shows the bytes of values.
func dump[T any](b *strings.Builder, c typed.Codec[T], values ...T) {
	for _, v := range values {
		fmt.Fprintf(b, "%-22s %-42s %x\n", c.Name(), strings.ReplaceAll(fmt.Sprintf("%#v", v), "interface {}", "any"), assert.Must(c.Append(nil, v)))
	}
}

// TestGolden: the bytes of every codec stay as they are. They are those of the examples in the
// specification of FoundationDB's tuple layer, where it has one.
func TestGolden(t *testing.T) {
	var b strings.Builder
	dump(&b, typed.Uint64, 0, 1, 255, 256, 1<<32, math.MaxUint64)
	dump(&b, typed.Int64, 0, 1, -1, -255, -256, -5551212, math.MaxInt64, math.MinInt64)
	dump(&b, typed.String, "", "FÔO\x00bar", "\xff")
	dump(&b, typed.Bytes, nil, []byte("foo\x00bar"), []byte{0}, []byte{0, 0xff})
	dump(&b, typed.Bool, false, true)
	dump(&b, typed.Float64, 0, math.Copysign(0, -1), 1, -42, math.Inf(1), math.Inf(-1))
	dump(&b, typed.UUID, [16]byte{0: 1, 15: 16})
	dump(&b, typed.Tuple, nil, []any{nil}, []any{"a", 1, nil, []byte{0}}, []any{[]any{"foo\x00bar", nil, []any{}}}, []any{float32(-42), 1.5, true, false, [16]byte{}, uint64(math.MaxUint64), int64(-7)})
	dump(&b, typed.Pair(typed.String, typed.Uint64), typed.Two[string, uint64]{First: "Berlin", Second: 7})
	for _, at := range []time.Time{time.Unix(0, 0), time.Date(2026, 11, 26, 12, 0, 0, 5, time.UTC), {}} {
		fmt.Fprintf(&b, "%-22s %-42s %x\n", "time", at.UTC().Format(time.RFC3339Nano), assert.Must(typed.Time.Append(nil, at)))
	}
	const name = "testdata/codecs.golden"
	if *rewrite {
		assert.OK(t, os.WriteFile(name, []byte(b.String()), 0o644))
	}
	assert.SameText(t, name, b.String(), string(assert.Must(os.ReadFile(name))))
}

// checkCodec: v comes back as it was, whatever follows it; two values are in the order of their
// bytes; and a byte string that is cut is made again.
func checkCodec[T any](t *testing.T, c typed.Codec[T], compare func(a, b T) int, same func(a, b T) bool, a, b T) {
	t.Helper()
	pa, pb := assert.Must(c.Append(nil, a)), assert.Must(c.Append([]byte("x"), b))[1:]
	if got, want := bytes.Compare(pa, pb), compare(a, b); got != want {
		t.Errorf("%s: %#v and %#v compare as %d, want %d: %x, %x", c.Name(), a, b, got, want, pa, pb)
	}
	// What follows is an element: another value, or nothing.
	for _, rest := range [][]byte{nil, {0}, {2, 0}, {0x14}} {
		got, left, err := c.Cut(append(bytes.Clone(pa), rest...))
		if err != nil || !same(got, a) || !bytes.Equal(left, rest) {
			t.Errorf("%s: %#v comes back as %#v, %x, %v", c.Name(), a, got, left, err)
		}
	}
	// So a value and what follows it sort by the value first.
	if want := compare(a, b); want != 0 {
		if got := bytes.Compare(append(bytes.Clone(pa), 0x30, 0xff), append(bytes.Clone(pb), 0x00)); got != want {
			t.Errorf("%s: %#v and %#v with others behind compare as %d, want %d", c.Name(), a, b, got, want)
		}
	}
}

func equal[T comparable](a, b T) bool { return a == b }

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func checkAll(t *testing.T, a, b uint64, s, u string, short uint8) {
	x, y := int64(a), int64(b)
	if short&1 != 0 { // numbers of few bytes
		a, b, x, y = a>>(short&56), b>>(short&56), x>>(short&56), y>>(short&56)
	}
	checkCodec(t, typed.Uint64, cmp.Compare, equal, a, b)
	checkCodec(t, typed.Int64, cmp.Compare, equal, x, y)
	checkCodec(t, typed.String, strings.Compare, equal, s, u)
	checkCodec(t, typed.Bytes, bytes.Compare, bytes.Equal, []byte(s), []byte(u))
	checkCodec(t, typed.Bool, func(a, b bool) int { return cmp.Compare(boolToInt(a), boolToInt(b)) }, equal, a&1 == 0, b&1 == 0)
	compareFloats := func(a, b float64) int {
		if a == 0 && b == 0 {
			return cmp.Compare(boolToInt(!math.Signbit(a)), boolToInt(!math.Signbit(b)))
		}
		return cmp.Compare(a, b)
	}
	f, g := math.Float64frombits(a), math.Float64frombits(b)
	if f == f && g == g {
		checkCodec(t, typed.Float64, compareFloats, equal, f, g)
	} else { // a NaN has no order among numbers, and comes back to the bit
		got, _, err := typed.Float64.Cut(assert.Must(typed.Float64.Append(nil, f)))
		if math.Float64bits(got) != a || err != nil {
			t.Errorf("%x comes back as %x, %v", a, math.Float64bits(got), err)
		}
	}
	var id, id2 [16]byte
	copy(id[:], s)
	copy(id2[:], u)
	checkCodec(t, typed.UUID, func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) }, equal, id, id2)
	at, at2 := time.Unix(x>>2, x&0x1fffffff).UTC(), time.Unix(y>>2, y&0x1fffffff).UTC()
	checkCodec(t, typed.Time, time.Time.Compare, equal, at, at2)
	type two = typed.Two[string, int64]
	checkCodec(t, typed.Pair(typed.String, typed.Int64), func(a, b two) int {
		return cmp.Or(strings.Compare(a.First, b.First), cmp.Compare(a.Second, b.Second))
	}, equal, two{s, x}, two{u, y})
	checkCodec(t, typed.Tuple, compareTuples, func(a, b []any) bool { return compareTuples(a, b) == 0 && len(a) == len(b) },
		tuple(a, s), tuple(b, u))
}

// tuple makes a tuple of a number's bits.
func tuple(n uint64, s string) (all []any) {
	all = []any{}
	for ; n != 0; n >>= 5 {
		switch n & 7 {
		case 0:
			all = append(all, nil)
		case 1:
			all = append(all, []byte(s))
		case 2:
			all = append(all, s)
		case 3:
			all = append(all, tuple(n>>40, s))
		case 4:
			all = append(all, int64(n))
		case 5:
			all = append(all, float32(int32(n)), float64(int64(n)))
		case 6:
			all = append(all, n&8 != 0)
		case 7:
			all = append(all, [16]byte{byte(n), byte(n >> 8)})
		}
	}
	return all
}

// rank is the order of kinds.
func rank(e any) int {
	switch e.(type) {
	case nil:
		return 0
	case []byte:
		return 1
	case string:
		return 2
	case []any:
		return 3
	case int64, uint64:
		return 4
	case float32:
		return 5
	case float64:
		return 6
	case bool:
		return 7
	}
	return 8
}

func compareElements(a, b any) int {
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	switch a := a.(type) {
	case []byte:
		return bytes.Compare(a, b.([]byte))
	case string:
		return strings.Compare(a, b.(string))
	case []any:
		return compareTuples(a, b.([]any))
	case int64:
		if v, ok := b.(int64); ok {
			return cmp.Compare(a, v)
		}
		return -1 // a uint64 is above
	case uint64:
		if v, ok := b.(uint64); ok {
			return cmp.Compare(a, v)
		}
		return 1
	case float32:
		return cmp.Compare(a, b.(float32))
	case float64:
		return cmp.Compare(a, b.(float64))
	case bool:
		return cmp.Compare(boolToInt(a), boolToInt(b.(bool)))
	case [16]byte:
		v := b.([16]byte)
		return bytes.Compare(a[:], v[:])
	}
	return 0
}

func compareTuples(a, b []any) int { return slices.CompareFunc(a, b, compareElements) }

// FuzzOrder: the order of bytes is the order of values, and values come back, for every codec.
func FuzzOrder(f *testing.F) {
	corpus.Add(f, uint64(0), uint64(math.MaxUint64), "", "\x00", uint8(0))
	corpus.Add(f, uint64(1<<63), uint64(1<<63-1), "a", "a\x00", uint8(1))
	corpus.Add(f, math.Float64bits(-1), math.Float64bits(math.NaN()), "a\x00\xff", "a\xff", uint8(9))
	corpus.Add(f, uint64(255), uint64(256), "\x00\x00", "\x00\x01", uint8(48))
	f.Fuzz(func(t *testing.T, a, b uint64, s, u string, short uint8) { checkAll(t, a, b, s, u, short) })
}

// TestOrder is FuzzOrder with many drawn values that are near each other.
func TestOrder(t *testing.T) {
	r := draw.Rand(t)
	text := func() string {
		p := make([]byte, r.IntN(4))
		for i := range p {
			p[i] = []byte{0, 1, 'a', 0xfe, 0xff}[r.IntN(5)]
		}
		return string(p)
	}
	number := func() uint64 {
		n := r.Uint64() >> r.IntN(64)
		switch r.IntN(4) {
		case 0:
			n = 1<<r.IntN(64) - uint64(r.IntN(2))
		case 1:
			n = -n
		}
		return n
	}
	for range rounds(20000/1000) * 1000 {
		a, b, s, u := number(), number(), text(), text()
		if r.IntN(4) == 0 {
			b = a + uint64(r.IntN(3)) - 1
		}
		checkAll(t, a, b, s, u, uint8(r.Uint32()))
	}
}

// FuzzCut: no bytes make a decoder panic; what it takes has these bytes alone.
func FuzzCut(f *testing.F) {
	for _, line := range strings.Split(string(assert.Must(os.ReadFile("testdata/codecs.golden"))), "\n") {
		var p []byte
		if _, err := fmt.Sscanf(line[strings.LastIndex(line, " ")+1:], "%x", &p); err == nil {
			corpus.Add(f, p)
		}
	}
	corpus.Add(f, bytes.Repeat([]byte{5}, 1000))
	corpus.Add(f, []byte{0x1c, 0, 0, 0, 0, 0, 0, 0, 1})
	corpus.Add(f, []byte{0x0c, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, p []byte) {
		recut(t, typed.Uint64, p)
		recut(t, typed.Int64, p)
		recut(t, typed.String, p)
		recut(t, typed.Bytes, p)
		recut(t, typed.Bool, p)
		recut(t, typed.Float64, p)
		recut(t, typed.UUID, p)
		recut(t, typed.Time, p)
		recut(t, typed.Tuple, p)
		recut(t, typed.Pair(typed.Tuple, typed.Bytes), p)
	})
}

func recut[T any](t *testing.T, c typed.Codec[T], p []byte) {
	v, rest, err := c.Cut(p)
	if err != nil {
		if !errors.Is(err, typed.ErrDecode) {
			t.Errorf("%s: error %v", c.Name(), err)
		}
		return
	}
	if again := assert.Must(c.Append(nil, v)); !bytes.Equal(append(again, rest...), p) {
		t.Errorf("%s: %x was cut as %#v, which is %x", c.Name(), p, v, again)
	}
}

// TestRefusedValues: what a codec can't encode is an error of the caller.
func TestRefusedValues(t *testing.T) {
	deep := []any{}
	for range 200 {
		deep = []any{deep}
	}
	for _, v := range [][]any{{int8(1)}, {[]any{struct{}{}}}, deep} {
		assert.Error(t, "a tuple", assert.ErrorOf(typed.Tuple.Append(nil, v)), brock.ErrInvalid)
	}
	assert.Error(t, "a time", assert.ErrorOf(typed.Time.Append(nil, time.Unix(math.MaxInt64, 0))), brock.ErrInvalid)
	_, _, err := typed.Tuple.Cut(bytes.Repeat([]byte{5}, 200))
	assert.Error(t, "deep bytes", err, typed.ErrDecode)
}

func BenchmarkPut(b *testing.B) {
	db := assert.Must(brock.Open(brock.Options{InMemory: true}))
	defer db.Close()
	ks := assert.Must(db.Keyspace("t"))
	u := newUsers(ks)
	r := rand.New(rand.NewPCG(1, 2))
	for i := 0; b.Loop(); i++ {
		assert.OK(b, db.Update(func(txn *brock.Txn) error {
			return u.table.Put(txn, uint64(i), &user{Name: fmt.Sprint(i), Mail: fmt.Sprint(i), Towns: []string{towns[r.IntN(len(towns))]}})
		}))
	}
}
