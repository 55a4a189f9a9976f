package pageio

import (
	"runtime"
	"runtime/debug"
	"unsafe"

	"github.com/brockdb/brock/internal/base/errs"
)

// SomeFile is what a Guard blames that does not know which file is read.
const SomeFile = "a mapped file"

// Armed is the state before Arm, for Guard to restore.
type Armed struct{ before bool }

// Arm makes memory faults of this goroutine panic, which Guard then turns into
// an error. It is only called in the argument of a deferred Guard.
func Arm() Armed { return Armed{debug.SetPanicOnFault(true)} }

// Guard turns a fault in mapped memory (the file was truncated, or its disk can't be
// read) into an *errs.Corruption in *errp that names the file. Other panics pass. Every
// function that touches a mapping, or bytes that a caller of the store has passed in,
// begins with, or is called below one that begins with,
//
//	defer pageio.Guard(pageio.Arm(), &err, file)
//
// Guards may be nested: the innermost names the file. One costs some 10 ns.
func Guard(a Armed, errp *error, file string) {
	// Before recover: however this ends, the goroutine is as it was before Arm. Else a fault in
	// code that is not guarded would panic, too, where it should end the process.
	if !a.before {
		debug.SetPanicOnFault(false)
	}
	r := recover()
	if r == nil {
		return
	}
	// Only a fault at an address that isn't near nil has an Addr.
	fault, isFault := r.(interface {
		runtime.Error
		Addr() uintptr
	})
	if !isFault {
		// A bug of ours, or of the caller: no damage to the file.
		panic(r)
	}
	c := errs.NewCorruption(file, -1, "mapped memory can't be read: the file was truncated, or its disk fails")
	c.Err = fault
	*errp = c
}

// Touch reads a byte of every page of b. Who hands mapped memory out calls it before,
// below a Guard: a page that can't be read is met here, not by the user.
//
//go:noinline
func Touch(b []byte) (sum byte) {
	if len(b) == 0 {
		return 0
	}
	sum = b[0]
	// No more than one line of the cache for each page: the last byte would take another.
	rest := PageSize - int(uintptr(unsafe.Pointer(&b[0]))%PageSize)
	for i := rest; i < len(b); i += PageSize {
		sum ^= b[i]
	}
	return sum
}
