package policy

import (
	"math"

	"github.com/brockdb/brock/internal/manifest"
)

// Garbage is bounded by a budget, a share of what is live (Options.GarbageShare).
// It lies in three places: in segments, where it is known record by record; behind
// upper runs, whose entries replace others of older runs, which the next merge will
// find; and behind memtables. Each may have a part of the budget. What is not known
// yet is estimated by whoever has the entries (State), so that the sum can be held.
const (
	budgetLeast = 32 << 20 // whatever is live
	budgetRest  = 16       // 1/16 of it is for what is not counted: headers, and files that go in a moment;
	budgetFixed = 4 << 20  // and so much: the manifest, and ends of files
	keysPart    = 16       // files of runs and remaps count as garbage, up to 1/16 of what is live

	tablePart  = 16 // 1/16 of the budget may lie behind a memtable before it is sealed,
	tableLeast = 4 << 20
	runsPart   = 10 // 1/10 behind upper runs before they are merged into the base
	runsLeast  = 1 << 20
	batchPart  = 32 // one collection moves 1/32 of what is live, and twice that at rest
	batchLeast = 8 << 20

	collectFrom = 67 // percent of the budget from which on segments are collected while clients write
	hurryFrom   = 79 // and as fast as it goes
	brakeFrom   = 85 // writers are slowed
	readyShare  = 80 // percent of garbage from which on a segment is collected in any case
)

// Replaced is what the entries of memtables or of a run replace elsewhere.
type Replaced struct {
	Values uint64 // separated values that they have, in bytes
	Older  uint64 // separated values of older entries that nobody needs because of them, and all that tombstones hide
}

// Space is how the garbage in a store, known or not, compares with its budget.
type Garbage struct {
	Live   uint64 // bytes in segments and journals that entries need
	Excess uint64 // bytes in them that nobody needs
	Budget uint64 // how much Excess may be while clients write
	// Reducible reports whether work that is planned makes Excess smaller.
	Reducible bool
}

// Measure compares what l holds with the budget.
func Measure(l *manifest.Layout, s State, o Options) Garbage {
	o = o.withDefaults()
	w := waste(l, s, o)
	space := Garbage{Live: w.needed(), Excess: w.excess(), Budget: w.budget()}
	space.Reducible = s.Sealed > 0 || w.collection() != nil || w.stale()
	return space
}

// Fill is the share of the budget that is used, if so many bytes came to the
// garbage since.
func (s *Garbage) Fill(more uint64) float64 {
	return float64(s.Excess+more) / float64(max(s.Budget, 1))
}

// CollectionPace says how fast collection should go at this Fill: 0 is not at all hasty,
// 1 as fast as it can.
func CollectionPace(fill float64) float64 {
	return min(1, max(0, (100*fill-collectFrom)/(hurryFrom-collectFrom)))
}

// Throttle says how much writers must be slowed at this Fill: 0 is not at all, 1 is
// where the budget is used up; it grows beyond.
func Throttle(fill float64) float64 {
	return max(0, (100*fill-brakeFrom)/(100-brakeFrom))
}

// SealAfter is how many bytes of older values a memtable may hide before it is
// sealed, so that they become known. A load that replaces nothing never meets it.
func (s *Garbage) SealAfter() uint64 {
	if s.Budget == 0 {
		return math.MaxUint64
	}
	return max(s.Budget/tablePart, tableLeast)
}

// SegmentBytes is the length at which a segment should end, at most most, where so
// much is live: one is collected as a whole, so it must be small beside all of them.
func SegmentBytes(live uint64, most int64) int64 {
	const share, least, block = 16, 8 << 20, 2 << 20
	return min(max(int64(live/share)/block*block, least), most)
}

// needed is what entries need of segments and journals.
func (w *wasted) needed() uint64 {
	all := w.live + w.state.Memtables.Values
	return all - min(all, w.hidden+w.state.Memtables.Older)
}

// excess is garbage, known or not. What lies between the values of segments that
// are as they were written is none: it can wait while data is loaded.
func (w *wasted) excess() uint64 {
	return w.died + w.hidden + w.state.Memtables.Older + min(w.keys, w.needed()/keysPart)
}

func (w *wasted) budget() uint64 {
	share := w.needed() / 100 * uint64(w.options.GarbageShare)
	return max(share-share/budgetRest, budgetLeast+budgetFixed) - budgetFixed
}

// over reports whether garbage without freed bytes of it is more than this share
// of the budget.
func (w *wasted) over(freed uint64, percent uint64) bool {
	return w.excess()-min(freed, w.excess()) > w.budget()/100*percent
}

// hidden is how many bytes of values upper runs surely hide. Of runs from before
// Open, and in some other cases, it is not known, see atWorst and staleUnknown.
func hidden(l *manifest.Layout, s State) (bytes uint64) {
	for _, r := range l.Runs() {
		bytes += s.Hidden[r.ID]
	}
	return bytes
}

// stale reports whether upper runs hide so much that it is worth a merge to find it.
func (w *wasted) stale() bool {
	runs := w.layout.Runs()
	uppers, base := split(runs)
	if len(runs) < 2 || len(uppers) == 0 {
		return false
	}
	cost := uint64(0)
	for _, r := range runs {
		cost += r.FileBytes()
	}
	hidden := w.hidden
	if hidden+w.state.Memtables.Older > 0 {
		// It is overwritten now, and so perhaps it was before Open. After this
		// merge it is known.
		hidden += w.atWorst()
	}
	if hidden >= max(w.budget()/runsPart, runsLeast, cost) {
		return true
	}
	return base != nil && w.staleUnknown(w.unknown(), base, cost)
}

// unknown are the runs of which State doesn't say what they hide. The oldest hides nothing.
func (w *wasted) unknown() (unknown []*manifest.Run) {
	runs := w.layout.Runs()
	for _, r := range runs[:max(len(runs), 1)-1] {
		if _, known := w.state.Hidden[r.ID]; !known {
			unknown = append(unknown, r)
		}
	}
	return unknown
}

// atWorst is how much the unknown runs hide if each of their entries replaces another.
func (w *wasted) atWorst() uint64 {
	unknown := w.unknown()
	if len(unknown) == 0 {
		return 0
	}
	runs := w.layout.Runs()
	return w.hides(unknown, runs[len(runs)-1], 100)
}
