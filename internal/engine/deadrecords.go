package engine

import (
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/compact"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
)

// deadRecords lists the records that are dead after an edit and were not before. A
// record that was moved, perhaps while the work went on that found it dead, is
// dead where it is now. unread are the inputs that were not read; since is what a
// collection knew when it began.
func (o *outputs) deadRecords(current *view.View, edit *layout.Edit, l *layout.Layout, out *compact.Output, unread []*view.Run, since *layout.Layout) (lists []layout.Dead, err error) {
	defer pageio.Guard(pageio.Arm(), &err, "a forwarding table")
	var dead layout.Deaths
	isNew := make(map[entry.FileNum]bool)
	for _, s := range edit.AddSegments {
		isNew[s.Num] = true
	}
	for _, list := range out.Dead.Lists() {
		s := l.Segment(list.Segment)
		switch {
		case s == nil && !isNew[list.Segment]: // it goes as a whole
			continue
		case s != nil && s.State().Status == layout.Relocated:
			if list, err = current.Segments.Find(list.Segment).Moved.Dead(list); err != nil {
				return nil, err
			}
		}
		dead.Take(list)
	}
	for _, num := range segmentsOf(unread, l) {
		if f := current.Segments.Find(num); f.Moved != nil { // collected meanwhile
			rest, err := f.Moved.Rest(l)
			if err != nil {
				return nil, err
			}
			dead.Take(rest)
		}
	}
	for _, f := range o.forwardings {
		list, err := f.DiedSince(since, l)
		if err != nil {
			return nil, err
		}
		dead.Take(list)
	}
	return dead.Lists(), nil
}

// segmentsOf lists the segments that runs of a layout refer to, each once.
func segmentsOf(runs []*view.Run, layout *layout.Layout) (nums []entry.FileNum) {
	for _, r := range runs {
		for _, ref := range layout.Run(r.ID).Refs {
			nums = append(nums, ref.Segment)
		}
	}
	slices.Sort(nums)
	return slices.Compact(nums)
}
