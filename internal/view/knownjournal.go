package view

import (
	"cmp"
	"slices"

	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/internal/vlog/journal"
)

// KnownJournal returns what the layout says of the journal behind the part that is in runs.
func KnownJournal(l *layout.Layout) journal.Known {
	k := journal.Known{Version: l.LastVersion(), Last: LastPossible(l), Closed: l.CleanClose()}
	k.Begin = journal.Point{End: frame.End{Name: frame.Name{File: l.FlushedTo()}}, LastVersion: l.LastVersion()}
	for _, s := range l.Sessions() {
		k.Found = append(k.Found, s.Found)
		// The session has made durable what it found before it recorded that.
		if s.Found.File > l.FlushedTo() {
			k.Durable = append(k.Durable, s.Found)
		}
	}
	for _, e := range l.JournalEnds() {
		if e.File == l.FlushedTo() {
			k.Begin.End = e
		} else if e.File > l.FlushedTo() {
			k.Durable = append(k.Durable, e)
		}
	}
	slices.SortFunc(k.Durable, func(a, b frame.End) int { return cmp.Compare(a.Number, b.Number) })
	return k
}
