package layout

import (
	"fmt"
	"github.com/brockdb/brock/internal/run/meta"
)

// RunID names a run; no id is used twice in a store. The number of its first
// file serves.
type RunID uint64

// Tier is the rank of a run: Upper runs lie above the Base.
type Tier uint8

// The tiers; numbers between are for merged upper runs.
const (
	Upper Tier = 0
	Base  Tier = 255
)

// Run is one sorted run of the store.
type Run struct {
	ID    RunID
	Tier  Tier
	Order uint64 // age: greater is newer; unique among the runs of a layout
	meta.Run
	Unknown []TLV // what this release doesn't know and must keep
}

// String is the tier in one word.
func (t Tier) String() string {
	switch t {
	case Upper:
		return "upper"
	case Base:
		return "base"
	}
	return fmt.Sprintf("tier%d", uint8(t))
}

// TLV is a field that this release doesn't know.
type TLV struct {
	Tag   uint16
	Value []byte
}
