package layout

import (
	"fmt"
)

// RunID names a run: the number of its first file. No id is used twice in a store.
type RunID uint64

// Tier is the rank of a run, its level in an LSM tree. All tiers lie above the base run, which is
// the largest.
type Tier uint8

// The tiers. Numbers between are for runs that a compaction made of upper runs.
const (
	Upper Tier = 0   // as a flush makes it
	Base  Tier = 255 // nothing lies below it
)

// Run is one sorted run of the store.
type Run struct {
	ID    RunID
	Tier  Tier
	Order uint64 // age: greater is newer; unique among the runs of a layout
	RunMeta
	Unknown []TLV // fields of later releases, which must be kept
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

// TLV is a field of a later release, which this one doesn't know.
type TLV struct {
	Tag   uint16
	Value []byte
}

// NewRuns makes a run of what a writer finished, none if it is empty.
func NewRuns(m RunMeta, tier Tier) []Run {
	if len(m.Files) == 0 {
		return nil
	}
	return []Run{{ID: RunID(m.Files[0].Num), Tier: tier, RunMeta: m}}
}
