package manifest

import (
	"bytes"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/version/layout"
)

// mostDescribed bounds what a file of a run says of the store, in bytes.
const mostDescribed = 16 << 10

// Describe returns a function that describes the store in a file of a run (run.WriterConfig.About),
// as an edit: its runs and keyspaces, as of the layout before the run was added, and the inputs that
// the run replaces. Runs that only the change feed needs are listed as replaced. Only a salvage reads
// it, when the manifest is lost. If the description exceeds mostDescribed, what the feed has is left
// out, then keyspaces: first those that have no key in the run, then all.
func Describe(l *layout.Layout, inputs []layout.RunID) func(before []layout.RunFile, first, last []byte) []byte {
	return func(before []layout.RunFile, first, last []byte) []byte {
		e := &layout.Edit{DropRuns: inputs, SetKeyspaces: l.Keyspaces(), NextKeyspace: l.NextKeyspace()}
		for _, r := range l.Runs() {
			known := *r
			known.Refs, known.Expiry = nil, nil
			e.AddRuns = append(e.AddRuns, known)
		}
		for _, s := range l.Segments() {
			if s.Stamp != 0 {
				e.AddSegments = append(e.AddSegments, layout.Segment{Num: s.Num, Kind: s.Kind, Stamp: s.Stamp})
			}
		}
		if len(before) > 0 {
			own := layout.Run{ID: layout.RunID(before[0].Num), RunMeta: layout.RunMeta{Files: before, First: first}}
			e.AddRuns = append(e.AddRuns, own)
		}
		all := *e
		describeFeed(&all, l)
		p := AppendEdit(nil, &all)
		if len(p) > mostDescribed {
			p = AppendEdit(nil, e)
		}
		if len(p) > mostDescribed {
			// Without NextKeyspace, one that is not listed may be there.
			e.SetKeyspaces, e.NextKeyspace = keyspacesWithin(l.Keyspaces(), first, last), 0
			p = AppendEdit(nil, e)
		}
		if len(p) > mostDescribed {
			e.SetKeyspaces = nil
			p = AppendEdit(nil, e)
		}
		if len(p) > mostDescribed {
			return nil
		}
		return p
	}
}

// describeFeed adds the files that only the change feed needs, with the versions that they got: else a
// salvage would leave a large transaction out, and bring back what that has deleted of older ones.
func describeFeed(e *layout.Edit, l *layout.Layout) {
	e.DropRuns = slices.Clip(e.DropRuns)
	for _, c := range l.Feed().Commits {
		if c.IsSpill() && l.Run(c.Run.ID) == nil {
			e.AddRuns = append(e.AddRuns, layout.Run{ID: c.Run.ID, RunMeta: layout.RunMeta{Files: c.Run.Files, Stamp: c.Version}})
			e.DropRuns = append(e.DropRuns, c.Run.ID)
		}
		for _, s := range c.Segments {
			if l.Segment(s.Num) == nil {
				e.AddSegments = append(e.AddSegments, layout.Segment{Num: s.Num, Kind: s.Kind, Stamp: c.Version})
			}
		}
	}
}

// keyspacesWithin lists the keyspaces that may have keys from first to last.
func keyspacesWithin(all []layout.Keyspace, first, last []byte) (some []layout.Keyspace) {
	for _, k := range all {
		if bytes.Compare(entry.AfterKeyspace(k.ID), first) > 0 && bytes.Compare(entry.AppendKeyspace(nil, k.ID), last) <= 0 {
			some = append(some, k)
		}
	}
	return some
}
