// Package y has the helpers of Badger's package y that programs use: WaterMark, Throttle, keys with
// a version at their end, AES-CTR, checksums, errors. What only Badger's engine needs is not here.
package y

import (
	"errors"
	"fmt"
	"log"
)

// ErrEOF is the error of a read behind the end of a mapped file. Nothing here returns it; it is
// here for programs that compare with it.
var ErrEOF = errors.New("ErrEOF: End of file")

// ErrCommitAfterFinish is returned by the second Flush of a WriteBatch.
var ErrCommitAfterFinish = errors.New("Batch commit not permitted after finish")

// Check ends the program with a log line if err is not nil.
func Check(err error) {
	if err != nil {
		log.Fatalf("%+v", Wrap(err, ""))
	}
}

// Check2 is Check of the second result of a call.
func Check2(_ any, err error) { Check(err) }

// AssertTrue ends the program with a log line unless b is true.
func AssertTrue(b bool) {
	if !b {
		log.Fatal("Assert failed")
	}
}

// AssertTruef is AssertTrue with a line of the caller's.
func AssertTruef(b bool, format string, args ...any) {
	if !b {
		log.Fatalf(format, args...)
	}
}

// Wrap returns nil for nil, and else err with msg before it. Unlike Badger's it keeps err, so that
// errors.Is finds it; the text is the same.
func Wrap(err error, msg string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s err: %w", msg, err)
}

// Wrapf is Wrap with a formatted message.
func Wrapf(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return Wrap(err, fmt.Sprintf(format, args...))
}

// CombineErrors returns an error with the texts of both, of the one that is not nil, or nil.
// Unlike Badger's it keeps the errors, so that errors.Is finds them.
func CombineErrors(one, other error) error {
	switch {
	case one == nil && other == nil:
		return nil
	case one == nil:
		return other
	case other == nil:
		return one
	default:
		return fmt.Errorf("%w; %w", one, other)
	}
}
