package files

import (
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/compact"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/view/garbage"
)

// Deaths lists the records that are dead after an edit and were not before. A
// record that was moved, perhaps while the work went on that found it dead, is
// dead where it is now. unread are the inputs that were not read; since is what a
// collection knew when it began.
func (o *Outputs) Deaths(current *view.View, edit *layout.Edit, l *layout.Layout, out *compact.Output, unread []*view.Run, since *layout.Layout) (lists []layout.Dead, err error) {
	defer pageio.Guard(pageio.Arm(), &err, "a remap")
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
	for _, num := range garbage.SegmentsOf(unread, l) {
		if f := current.Segments.Find(num); f.Moved != nil { // collected meanwhile
			rest, err := f.Moved.Rest(l)
			if err != nil {
				return nil, err
			}
			dead.Take(rest)
		}
	}
	for _, f := range o.Remaps {
		list, err := f.DiedSince(since, l)
		if err != nil {
			return nil, err
		}
		dead.Take(list)
	}
	return dead.Lists(), nil
}

// DropUnreferenced adds to the edit the segments that nobody will need after it;
// which of their records have died is of no interest.
func DropUnreferenced(edit *layout.Edit, l *layout.Layout) error {
	next, err := l.Apply(edit)
	if err != nil {
		return err
	}
	edit.DropSegments = append(edit.DropSegments, next.Unreferenced()...)
	dropped := make(map[entry.FileNum]bool)
	for _, num := range edit.DropSegments {
		dropped[num] = true
	}
	edit.Dead = slices.DeleteFunc(edit.Dead, func(d layout.Dead) bool { return dropped[d.Segment] })
	return nil
}
