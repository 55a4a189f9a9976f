package brock

import (
	"sync"

	"github.com/brockdb/brock/internal/copies/follow"
	"github.com/brockdb/brock/internal/view"
)

// heldVersion is the version of a Snapshot.
type heldVersion struct {
	moment *follow.Moment // what copies need; nil after refused
	// why there are no copies
	refused error

	mu  sync.Mutex // guards:
	pin *view.Pin  // nil once it is released
}

// fork returns another pin of the version.
func (h *heldVersion) fork() (*view.Pin, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// The pin must not be released in the middle of this.
	if h.pin == nil {
		return nil, ErrTxnDone
	}
	return h.pin.Fork(), nil
}

// release releases the pin, once. It reports whether this was the call that did.
func (h *heldVersion) release() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pin == nil {
		return false
	}
	h.pin.Release()
	h.pin = nil
	return true
}
