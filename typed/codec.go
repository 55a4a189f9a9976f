package typed

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/brockdb/brock"
)

// Codec turns values into bytes that sort as the values do. Those of the package are elements of
// FoundationDB's tuple layer. In a codec of your own, no value's bytes may be the beginning of
// another's, unless 0xff follows there, and none may begin with 0xff. Calls may come at once from
// any number of goroutines.
type Codec[T any] interface {
	// Name is a part of the table's declaration: change it when the bytes change.
	Name() string
	// Append appends the bytes of v. An error refuses the value: it should be brock.ErrInvalid.
	Append(dst []byte, v T) ([]byte, error)
	// Cut returns the value that p begins with, and what follows it. It does not keep p.
	Cut(p []byte) (v T, rest []byte, err error)
}

// The codecs of single values.
var (
	// Uint64 is an integer of 1 to 9 bytes. Int64 writes the same for the same number.
	Uint64 Codec[uint64] = element[uint64]{"uint64"}

	// Int64 is an integer of 1 to 9 bytes.
	Int64 Codec[int64] = element[int64]{"int64"}

	// String sorts by bytes, as Go's strings do. It need not be UTF-8.
	String Codec[string] = element[string]{"string"}

	// Bytes sorts as bytes.Compare does. nil is the empty slice.
	Bytes Codec[[]byte] = element[[]byte]{"bytes"}

	// Bool sorts false first.
	Bool Codec[bool] = element[bool]{"bool"}

	// Float64 sorts as numbers do, -0 right before 0. A NaN comes before all numbers or after them,
	// by its sign.
	Float64 Codec[float64] = element[float64]{"float64"}

	// UUID is 16 bytes.
	UUID Codec[[16]byte] = element[[16]byte]{"uuid"}

	// Tuple is any number of elements: nil, []byte, string, int, int64, uint64, float32, float64, bool,
	// [16]byte, and []any for a tuple in a tuple. Kinds sort in the order null, bytes, string, tuple,
	// integer, float32, float64, bool, UUID. Integers come back as int64, or as uint64 if that is too
	// small.
	Tuple Codec[[]any] = element[[]any]{"tuple"}

	// Time is an instant: two integers, seconds since 1970 and nanoseconds. It comes back in UTC. It
	// refuses those that package time can't compare, some 292 billion years from now.
	Time Codec[time.Time] = times{element[int64]{}, element[int64]{}}
)

// element is the codec of values that are one element of a tuple. A value that is a tuple has the
// bytes of one in a tuple, which say where it ends.
type element[T any] struct{ name string }

func (c element[T]) Name() string                           { return c.name }
func (c element[T]) Append(dst []byte, v T) ([]byte, error) { return appendElement(dst, v, 0) }

func (c element[T]) Cut(p []byte) (v T, rest []byte, err error) {
	e, rest, err := cutElement(p, 0)
	if i, small := e.(int64); small && i >= 0 && c.name == "uint64" {
		e = uint64(i)
	}
	v, ok := e.(T)
	if !ok && err == nil {
		err = fmt.Errorf("%w: a %T is no %s", ErrDecode, e, c.name)
	}
	return v, rest, err
}

var errNoPrefix = misuse("values of this codec have no prefixes")

// rangePrefix returns the range of the bytes of all values that begin with v, or errNoPrefix.
func rangePrefix[T any](c Codec[T], v T) (lo, hi []byte, err error) {
	if c, ok := c.(interface {
		rangePrefix(v T) (lo, hi []byte, err error)
	}); ok {
		return c.rangePrefix(v)
	}
	return nil, nil, errNoPrefix
}

func (c element[T]) rangePrefix(v T) (lo, hi []byte, err error) {
	p, err := c.Append(nil, v)
	lo = bytes.TrimSuffix(p, []byte{0}) // without its end
	switch any(v).(type) {
	case []any: // an element ends there: 0xff that follows would be another one's
		return lo, pastValue(lo), err
	case string, []byte:
		lo, hi = brock.PrefixRange(lo)
		return lo, hi, err
	}
	return nil, nil, errNoPrefix
}

// Two is a pair of values.
type Two[A, B any] struct {
	First  A
	Second B
}

// Pair is the codec of two values, which sorts by the first one and then by the second. A prefix of a
// pair has the whole First, and a Second that begins so; if codec b has no prefixes, any Second.
func Pair[A, B any](a Codec[A], b Codec[B]) Codec[Two[A, B]] { return pairs[A, B]{a, b} }

type pairs[A, B any] struct {
	a Codec[A]
	b Codec[B]
}

func (c pairs[A, B]) Name() string { return "(" + c.a.Name() + " " + c.b.Name() + ")" }

func (c pairs[A, B]) Append(dst []byte, v Two[A, B]) ([]byte, error) {
	dst, err := c.a.Append(dst, v.First)
	if err != nil {
		return nil, err
	}
	return c.b.Append(dst, v.Second)
}

func (c pairs[A, B]) Cut(p []byte) (v Two[A, B], rest []byte, err error) {
	if v.First, p, err = c.a.Cut(p); err == nil {
		v.Second, p, err = c.b.Cut(p)
	}
	return v, p, err
}

func (c pairs[A, B]) rangePrefix(v Two[A, B]) (lo, hi []byte, err error) {
	if lo, hi, err = rangePrefix(c.b, v.Second); err == errNoPrefix {
		lo, hi, err = nil, pastValue(nil), nil
	}
	first, err2 := c.a.Append(nil, v.First)
	return join(first, lo), join(first, hi), cmp.Or(err, err2)
}

// times is the codec Time.
type times pairs[int64, int64]

// unixToInternal is the seconds from year 1, where time.Time counts from, to 1970.
const unixToInternal = 62135596800

func (c times) Name() string { return "time" }

func (c times) Append(dst []byte, t time.Time) ([]byte, error) {
	if t.Unix() > math.MaxInt64-unixToInternal {
		return nil, misuse("a time is out of range")
	}
	return pairs[int64, int64](c).Append(dst, Two[int64, int64]{t.Unix(), int64(t.Nanosecond())})
}

func (c times) Cut(p []byte) (time.Time, []byte, error) {
	v, p, err := pairs[int64, int64](c).Cut(p)
	if err == nil && (v.Second < 0 || v.Second >= 1e9 || v.First > math.MaxInt64-unixToInternal) {
		err = fmt.Errorf("%w: no time", ErrDecode)
	}
	return time.Unix(v.First, v.Second).UTC(), p, err
}
