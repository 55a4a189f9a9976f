package files

import (
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/lsm/compact"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/version/meta"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// OutputBytes is the length of the files that were written. Zeros that a value segment is
// filled with don't count: they are overwritten before the system writes them.
func OutputBytes(out *compact.Output) int64 {
	var n int64
	for _, f := range out.Run.Files {
		n += int64(f.Size)
	}
	for _, s := range out.Values {
		n += s.Size
	}
	for _, m := range out.Remaps {
		n += m.Size
	}
	return n
}

// Outputs are opened files that no View holds yet.
type Outputs struct {
	Runs   []*view.Run
	Files  []*view.Segment
	Remaps []*view.Segment
}

// Discard closes the files, but leaves them on the disk.
func (o *Outputs) Discard() {
	for _, r := range o.Runs {
		r.Reader.Close()
	}
	for _, f := range o.Files {
		f.Reader.Close()
	}
	for _, f := range o.Remaps {
		f.Moved.Close()
	}
}

// OpenOutputs opens what a piece of work wrote.
func (f *Opener) OpenOutputs(edit *layout.Edit, out *compact.Output) (added Outputs, err error) {
	defer func() {
		if err != nil {
			added.Discard()
		}
	}()
	for i := range edit.AddRuns {
		r, err := f.openWritten(&edit.AddRuns[i])
		if err != nil {
			return added, err
		}
		added.Runs = append(added.Runs, r)
	}
	for _, s := range out.Values {
		opened, err := f.OpenSegment(filename.Value, s.Number, segment.OpenOptions{End: s.Size, Stamp: s.Stamp, Life: s.Life})
		if err != nil {
			return added, err
		}
		added.Files = append(added.Files, opened)
	}
	for _, m := range out.Remaps {
		opened, err := f.OpenRemap(stateOf(&m), added.Files[0])
		if err != nil {
			return added, err
		}
		added.Remaps = append(added.Remaps, opened)
	}
	return added, nil
}

// stateOf is the state of the segment that a remap leads away from.
func stateOf(m *compact.Remap) layout.SegmentState {
	return layout.SegmentState{Num: m.Source, Status: layout.Relocated, Map: m.Number, Target: m.Target, Life: m.Life}
}

// RemoveOutputs removes files that the manifest surely does not name.
func (f *Opener) RemoveOutputs(out *compact.Output) {
	for _, file := range out.Run.Files {
		f.Remove(filename.New(filename.Run, file.Num))
	}
	for _, s := range out.Values {
		f.Remove(filename.New(filename.Value, s.Number))
	}
	for _, m := range out.Remaps {
		f.Remove(filename.New(filename.Remap, m.Number))
	}
}

// NewRuns makes a run of what a writer finished, none if it is empty.
func NewRuns(m meta.Run, tier layout.Tier) []layout.Run {
	if len(m.Files) == 0 {
		return nil
	}
	return []layout.Run{{ID: layout.RunID(m.Files[0].Num), Tier: tier, Run: m}}
}

// Describe adds to the edit the value segments that were written, and where those
// went that were collected.
func Describe(edit *layout.Edit, l *layout.Layout, out *compact.Output) {
	for _, s := range out.Values {
		edit.AddSegments = append(edit.AddSegments, layout.Segment{
			Num: s.Number, Kind: filename.Value, FileBytes: uint64(s.Size), Records: s.Records, Bytes: s.ValueBytes, Stamp: s.Stamp, Life: s.Life,
		})
	}
	for _, m := range out.Remaps {
		if l.Segment(m.Source) != nil { // or all of it has died meanwhile
			edit.States = append(edit.States, stateOf(&m))
		}
	}
}
