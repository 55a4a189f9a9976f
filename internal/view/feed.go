package view

import (
	"slices"

	"github.com/brockdb/brock/internal/version/layout"
)

// Feed is the part of a View that the change feed reads, beside the journal segments that are not
// in runs yet: files of Layout.Feed. A file that is missing or whose header is damaged is not in
// it: then the feed can't go past it, and everything else can.
type Feed struct {
	Segments Segments // journal segments, and those with the values of Runs
	Runs     []*Run   // of transactions that are in no journal
}

// Run returns the run of the feed with this id, or nil.
func (f *Feed) Run(id layout.RunID) *Run { return findRun(f.Runs, id) }

func findRun(runs []*Run, id layout.RunID) *Run {
	if i := slices.IndexFunc(runs, func(r *Run) bool { return r.ID == id }); i >= 0 {
		return runs[i]
	}
	return nil
}

// each calls fn for the shared parts of the feed that are not among runs and segments.
func (f *Feed) each(runs []*Run, segments *Segments, fn func(s *shared)) {
	for _, r := range f.Runs {
		if !slices.Contains(runs, r) {
			fn(&r.shared)
		}
	}
	for _, s := range f.Segments.Files {
		if segments.Find(s.Num) != s {
			fn(&s.shared)
		}
	}
}

// without returns the feed without some resources.
func (f *Feed) without(gone map[*shared]bool) Feed {
	return Feed{
		Segments: NewSegments(slices.DeleteFunc(slices.Clone(f.Segments.Files), func(s *Segment) bool { return gone[&s.shared] })),
		Runs:     slices.DeleteFunc(slices.Clone(f.Runs), func(r *Run) bool { return gone[&r.shared] }),
	}
}
