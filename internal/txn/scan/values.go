package scan

import (
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/txn/pending"
	"github.com/brockdb/brock/internal/view"
)

// Values reads separated values: the store's, and those of a transaction's own
// writes in files. It is used by any number of goroutines.
type Values struct {
	Pin   *view.Pin
	Files pending.Files // nil: no own write is in a file
}

// ReadValue is view.Pin.ReadValue, also for an own write in files.
func (v Values) ReadValue(key []byte, e *entry.Entry, dst []byte, lend bool) (value []byte, own bool, err error) {
	if v.IsOwn(e) {
		return v.Files.Value(key, e, dst)
	}
	return v.Pin.ReadValue(key, e, dst, lend)
}

// IsOwn reports whether e is an own write of the transaction, with its value in Files.
func (v Values) IsOwn(e *entry.Entry) bool { return e.Version == rangedel.Pending && v.Files != nil }
