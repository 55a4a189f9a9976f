package view

import (
	"cmp"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// ScrubFile is a file of a View that is to be verified.
type ScrubFile struct {
	Num  entry.FileNum
	Size int64
	run  *Run     // one of its files
	seg  *Segment // or its records; or the forwarding table that stands for it
}

// ScrubFiles lists the files of the View that are to be verified, in the order of their numbers.
func (v *View) ScrubFiles() (list []ScrubFile) {
	for _, r := range v.Runs {
		for _, f := range r.Meta().Files {
			list = append(list, ScrubFile{Num: f.Num, Size: int64(f.Size), run: r})
		}
	}
	for _, f := range v.Segments.Files {
		switch s := v.Layout.Segment(f.Num); {
		case s == nil: // the journal: the next flush reads it, or the next Open
		case f.Moved != nil:
			list = append(list, ScrubFile{Num: f.Moved.Header().Number, Size: f.Moved.Size(), seg: f})
		default:
			list = append(list, ScrubFile{Num: f.Num, Size: int64(s.FileBytes), seg: f})
		}
	}
	slices.SortFunc(list, func(a, b ScrubFile) int { return cmp.Compare(a.Num, b.Num) })
	return list
}

// Scrubbed is how much of a file was verified.
type Scrubbed struct {
	Num   entry.FileNum
	Bytes int64
	place segment.Place
}

// Scrub verifies the next bytes of a file: about most of them, as it ends behind a whole chunk or
// frame. done says that all is verified. Damage of a run is reported, that of a segment returned.
func (f *ScrubFile) Scrub(c segment.Config, part *Scrubbed, most int64, report func(*errs.Corruption)) (done bool, err error) {
	switch {
	case f.run != nil:
		part.Bytes, done = f.run.Scrub(f.Num, part.Bytes, most, report)
	case f.seg.Moved != nil:
		done, err = true, f.seg.Moved.Verify(c)
	default:
		done, err = f.seg.Scrub(c, &part.place, most)
		part.Bytes = part.place.Offset
	}
	// The file counts whole, as in the sum of the list, wherever the scrub of it has ended.
	if done {
		part.Bytes = f.Size
	}
	return done, err
}
