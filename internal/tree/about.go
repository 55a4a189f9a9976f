package tree

import (
	"bytes"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/manifest"
	"github.com/brockdb/brock/internal/run/meta"
)

// mostAbout bounds what a file of a run says of the store, in bytes.
const mostAbout = 16 << 10

// about returns what the files of a run say of the store, beside the manifest: its runs
// and keyspaces, as of the layout before the run, which replaces the inputs. A salvage
// needs it when the manifest is lost; nobody else reads it. What has no room is left out,
// keyspaces first, save those that may have keys in the run.
func about(l *layout.Layout, inputs []layout.RunID) func(before []meta.File, first, last []byte) []byte {
	return func(before []meta.File, first, last []byte) []byte {
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
			own := layout.Run{ID: layout.RunID(before[0].Num), Run: meta.Run{Files: before, First: first}}
			e.AddRuns = append(e.AddRuns, own)
		}
		p := manifest.AppendEdit(nil, e)
		if len(p) > mostAbout {
			// Without NextKeyspace, one that is not listed may be there.
			e.SetKeyspaces, e.NextKeyspace = within(l.Keyspaces(), first, last), 0
			p = manifest.AppendEdit(nil, e)
		}
		if len(p) > mostAbout {
			e.SetKeyspaces = nil
			p = manifest.AppendEdit(nil, e)
		}
		if len(p) > mostAbout {
			return nil
		}
		return p
	}
}

// within lists the keyspaces that may have keys from first to last.
func within(all []layout.Keyspace, first, last []byte) (some []layout.Keyspace) {
	for _, k := range all {
		if bytes.Compare(entry.AfterKeyspace(k.ID), first) > 0 && bytes.Compare(entry.AppendKeyspace(nil, k.ID), last) <= 0 {
			some = append(some, k)
		}
	}
	return some
}
