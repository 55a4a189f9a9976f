package policy

import (
	"math"

	"github.com/brockdb/brock/internal/version/layout"
)

// Garbage compares a store's garbage with its budget, a share of the live bytes
// (Options.GarbageShare). There are three kinds of garbage: records of segments that are known
// to be dead, values that entries of upper runs replace, and values that entries of memtables
// replace. The latter two are hidden until a compaction finds them. The caller estimates them
// (State), so that the sum can be bounded.
type Garbage struct {
	Live   uint64 // bytes in segments and journals that entries need
	Excess uint64 // bytes in them that nobody needs
	Budget uint64 // bound of Excess while clients write
	// Reducible reports whether planned work makes Excess smaller, so that
	// throttled writers wait for something.
	Reducible bool
}

// Measure compares the garbage of a store with its budget.
func Measure(l *layout.Layout, s State, o Options) Garbage {
	v := newBalance(l, s, o.withDefaults())
	g := Garbage{Live: v.neededBytes(), Excess: v.excessBytes(), Budget: v.garbageBudget()}
	// A flush tells what the memtable hides, and so makes the estimate smaller.
	g.Reducible = s.Sealed > 0 || v.planCollection() != nil || v.hidesMuch()
	return g
}

// Fill returns the share of the budget that is used if there are more bytes of garbage than were
// measured: 1 = all of it.
func (g *Garbage) Fill(more uint64) float64 {
	return float64(g.Excess+more) / float64(max(g.Budget, 1))
}

// CollectionPace returns how fast collection should go at this Fill: 0 = at
// leisure, 1 = as fast as it can.
func CollectionPace(fill float64) float64 {
	return min(1, max(0, (100*fill-collectPercent)/(fullPacePercent-collectPercent)))
}

// Throttle returns how much writers must be throttled at this Fill: 0 = not at
// all, 1 = as much as where the budget is used up. Beyond, it grows with the square,
// for work that takes long, as a compaction of large runs does.
func Throttle(fill float64) float64 {
	t := max(0, (100*fill-throttlePercent)/(100-throttlePercent))
	return max(t, t*t)
}

// SealAfter returns how many bytes of older values a memtable may hide before it is sealed, so
// that they become known. A load that replaces nothing hides none.
func (g *Garbage) SealAfter() uint64 {
	// Nothing was measured yet.
	if g.Budget == 0 {
		return math.MaxUint64
	}
	return max(g.Budget/tableHiddenFraction, tableHiddenBytes)
}
