package brock

import (
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/pageio"
)

// The calls here reach memory that is mapped from files. A fault in it, as when
// a disk fails, becomes a CorruptionError.

// mapped is the file a fault is blamed on where nothing below knows better.
const mapped = "a mapped file"

func pinGet(p pin, key []byte, e *entry.Entry) (found bool, err error) {
	defer pageio.Guard(pageio.Arm(), &err, mapped)
	return p.Get(key, e)
}

// pinValue needs no guard of its own: what reads segments has one.
func pinValue(p pin, key []byte, e *entry.Entry, dst []byte) ([]byte, error) {
	return p.Value(key, e, dst)
}
