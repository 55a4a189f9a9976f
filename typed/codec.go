package typed

import (
	"fmt"
	"math"
	"time"
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
	if u, ok := any(&v).(*uint64); ok && err == nil {
		if i, small := e.(int64); small && i >= 0 {
			*u = uint64(i)
			return v, rest, nil
		}
	}
	v, ok := e.(T)
	if !ok && err == nil {
		err = fmt.Errorf("%w: a %T is no %s", ErrDecode, e, c.name)
	}
	return v, rest, err
}

var errNoPrefix = misuse("values of this codec have no prefixes")

// prefixer is a Codec whose values have beginnings.
type prefixer[T any] interface {
	// appendPrefix appends what the bytes of all values begin with that begin with v, or returns
	// errNoPrefix. With whole, v ends there, and a byte 0xff that follows belongs to another value.
	appendPrefix(dst []byte, v T) (_ []byte, whole bool, err error)
}

func (c element[T]) appendPrefix(dst []byte, v T) (_ []byte, whole bool, err error) {
	switch any(v).(type) {
	case []any:
		whole = true
	case string, []byte:
	default:
		return nil, false, errNoPrefix
	}
	if dst, err = c.Append(dst, v); err != nil {
		return nil, false, err
	}
	return dst[:len(dst)-1], whole, nil // without its end
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

func (c pairs[A, B]) appendPrefix(dst []byte, v Two[A, B]) ([]byte, bool, error) {
	dst, err := c.a.Append(dst, v.First)
	if b, ok := c.b.(prefixer[B]); ok && err == nil {
		if longer, whole, err := b.appendPrefix(dst, v.Second); err != errNoPrefix {
			return longer, whole, err
		}
	}
	return dst, true, err
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
