package view

import (
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/journal"
	"github.com/brockdb/brock/report"
)

// ListFiles lists the files of v: those that entries need, these journal segments behind them, and
// those that only the change feed needs. What is dead counts as of a time, in Unix milliseconds.
func (v *View) ListFiles(unflushed []journal.SegmentInfo, o *policy.Options, now uint64) []report.File {
	var list []report.File
	listed := make(map[filename.Name]bool)
	add := func(name filename.Name, f report.File) {
		if !listed[name] { // the feed names files again that entries need, too
			listed[name], f.Name, f.Kind = true, name.String(), name.Kind.String()
			list = append(list, f)
		}
	}
	tables := make(map[entry.FileNum]int64) // lengths, which the layout doesn't have
	for _, s := range v.Segments.Files {
		if s.Moved != nil {
			tables[s.Num] = s.Moved.Size()
		}
	}
	for f := range v.Layout.Files() {
		info := report.File{Use: "entries", Bytes: f.Size}
		switch r, s := f.Run, f.Segment; {
		case r != nil:
			// Files of a run are alike, so each has its share.
			dead := min(o.Dead(v.Layout, r.Superseded, now).Bytes, r.FileBytes())
			info.Dead = int64(float64(dead) * float64(f.Size) / float64(max(r.FileBytes(), 1)))
			info.Run, info.Tier, info.Entries = uint64(r.ID), r.Tier.String(), int64(r.Entries)
			info.MinVersion, info.MaxVersion = uint64(r.MinVersion), uint64(r.MaxVersion)
		case s.State().Status == layout.Live:
			info.Dead, info.Entries = min(int64(s.DeadBytes()), f.Size), int64(s.Records-s.DeadRecords())
		default:
			info.Bytes = tables[s.Num]
		}
		add(f.Name, info)
	}
	for _, s := range unflushed {
		add(filename.New(filename.Journal, s.File), report.File{Use: "unflushed", Bytes: s.Offset})
	}
	for _, f := range v.Layout.AllFiles() {
		add(f.Name, report.File{Use: "feed", Bytes: f.Size})
	}
	return list
}
