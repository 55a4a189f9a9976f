package compact

import (
	"bytes"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/version/layout"
)

// FindUnneeded returns the inputs of a compaction that need not be read: range deletes of newer
// inputs, or the end of their keyspaces, leave nothing of them, and each segment that they refer to
// is theirs alone, so that it goes as a whole: nobody need know which of its records have died,
// unless it is collected meanwhile (package engine).
func FindUnneeded(inputs []layout.RunID, rules *Rules, l *layout.Layout) (unneeded map[layout.RunID]bool, err error) {
	defer pageio.Guard(pageio.Arm(), &err, "a run that is compacted") // range deletes are looked up
	unneeded = make(map[layout.RunID]bool)
	for _, id := range inputs {
		r := l.Run(id)
		unneeded[id] = nothingOutlives(rules, l, r.First, r.Last, r.MaxVersion)
	}
	for again := true; again; {
		again = false
		shared := make(map[entry.FileNum]bool)
		for _, r := range l.Runs() {
			for _, ref := range r.Refs {
				shared[ref.Segment] = shared[ref.Segment] || !unneeded[r.ID]
			}
		}
		for _, id := range inputs {
			if unneeded[id] && slices.ContainsFunc(l.Run(id).Refs, func(ref layout.SegmentRef) bool {
				// What was moved from several segments, for several runs, is in one.
				moved := l.Segment(ref.Segment).State().Status == layout.Relocated || l.Usage(ref.Segment).Sources > 0
				return moved || shared[ref.Segment]
			}) {
				unneeded[id], again = false, true
			}
		}
	}
	return unneeded, nil
}

// nothingOutlives reports whether nothing with a stored key from first to last and a
// version up to newest outlives a compaction by these rules.
func nothingOutlives(rules *Rules, layout *layout.Layout, first, last []byte, newest entry.Version) bool {
	at := first
	for bytes.Compare(at, last) <= 0 {
		id, ok := entry.KeyspaceOf(at)
		if !ok {
			return false
		}
		if layout.Dropped(id) {
			at = entry.AfterKeyspace(id)
			continue
		}
		history := rules.HistoryOf(id)
		if history.Versions > 1 {
			// A key that was set again by the transaction that has deleted its range
			// was overwritten rather than deleted: its history goes on.
			return false
		}
		next := rangeDeleteOver(rules.RangeDeletes, at, newest, history.Watermark)
		if next == nil {
			return false
		}
		at = next
	}
	return true
}

// rangeDeleteOver looks for a range delete over key that is newer than one version and not newer
// than another. It returns the end of the range around key that such a range delete makes
// unneeded; nil if there is none, or if a source can't be read.
func rangeDeleteOver(sources []rangedel.Source, key []byte, above, upTo entry.Version) []byte {
	cover := rangedel.NewForwardCover(upTo, sources...)
	defer cover.Close()
	if cover == nil || cover.Newest(key) <= above || cover.Err() != nil {
		return nil
	}
	_, end := cover.Stretch()
	return bytes.Clone(end)
}
