package brock

import (
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/tombstone"
	"github.com/brockdb/brock/internal/tree"
	"github.com/brockdb/brock/internal/view"
)

// values reads separated values: the store's, and those of a transaction's own
// writes in files. The files below are guarded where
// they are read.
type values struct {
	pin   *view.Pin
	spill *tree.Spill // nil: none are in files
}

// value is like view.Pin.Value.
func (v values) value(key []byte, e *entry.Entry, dst []byte) ([]byte, error) {
	if e.Version == tombstone.Pending && v.spill != nil {
		return v.spill.Value(key, e, dst)
	}
	return v.pin.Value(key, e, dst)
}

// touch is like view.Pin.Touch.
func (v values) touch(e *entry.Entry) bool {
	return e.Version == tombstone.Pending && v.spill != nil || v.pin.Touch(e)
}
