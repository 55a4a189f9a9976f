package brock

import (
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/internal/tombstone"
	"github.com/brockdb/brock/internal/tree"
)

// The calls here reach memory that is mapped from files. A fault in it, as when
// a disk fails, becomes a CorruptionError.

// mapped is the file a fault is blamed on where nothing below knows better.
const mapped = "a mapped file"

func pinGet(p *tree.Pin, key []byte, e *entry.Entry) (found bool, err error) {
	defer pageio.Guard(pageio.Arm(), &err, mapped)
	return p.Get(key, e)
}

// values reads separated values: the store's, and those of a transaction's own
// writes in files. The files below are guarded where
// they are read.
type values struct {
	pin   *tree.Pin
	spill *tree.Spill // nil: none are in files
}

// value is like tree.Pin.Value.
func (v values) value(key []byte, e *entry.Entry, dst []byte) ([]byte, error) {
	if e.Version == tombstone.Pending && v.spill != nil {
		return v.spill.Value(key, e, dst)
	}
	return v.pin.Value(key, e, dst)
}

// touch is like tree.Pin.Touch.
func (v values) touch(e *entry.Entry) bool {
	return e.Version == tombstone.Pending && v.spill != nil || v.pin.Touch(e)
}
