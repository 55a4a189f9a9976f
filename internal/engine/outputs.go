package engine

import (
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/lsm/compact"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// outputs are opened files that no View holds yet.
type outputs struct {
	runs        []*view.Run
	segments    []*view.Segment
	forwardings []*view.Segment
}

// close closes the files, but leaves them on the disk.
func (o *outputs) close() {
	for _, r := range o.runs {
		r.Reader.Close()
	}
	for _, f := range o.segments {
		f.Reader.Close()
	}
	for _, f := range o.forwardings {
		f.Moved.Close()
	}
}

// openOutputs opens what a piece of work wrote.
func openOutputs(f *view.Opener, edit *layout.Edit, out *compact.Output) (added outputs, err error) {
	defer func() {
		if err != nil {
			added.close()
		}
	}()
	for i := range edit.AddRuns {
		r, err := f.OpenWritten(&edit.AddRuns[i])
		if err != nil {
			return added, err
		}
		added.runs = append(added.runs, r)
	}
	for _, s := range out.Values {
		opened, err := f.OpenSegment(filename.Value, s.Number, segment.OpenOptions{End: s.Size, Stamp: s.Stamp, KeyID: s.KeyID})
		if err != nil {
			return added, err
		}
		added.segments = append(added.segments, opened)
	}
	for _, m := range out.Forwardings {
		opened, err := f.OpenForwarding(m.State(), added.segments[0])
		if err != nil {
			return added, err
		}
		added.forwardings = append(added.forwardings, opened)
	}
	return added, nil
}

// removeOutputs removes files that the manifest surely does not name.
func removeOutputs(f *view.Opener, out *compact.Output) {
	for _, file := range out.Run.Files {
		f.Remove(filename.New(filename.Run, file.Num))
	}
	for _, s := range out.Values {
		f.Remove(filename.New(filename.Value, s.Number))
	}
	for _, m := range out.Forwardings {
		f.Remove(filename.New(filename.Forwarding, m.Number))
	}
}

// describeOutputs adds to the edit the value segments that were written, and where those
// went that were collected.
func describeOutputs(edit *layout.Edit, l *layout.Layout, out *compact.Output) {
	for _, s := range out.Values {
		edit.AddSegments = append(edit.AddSegments, layout.Segment{
			Num: s.Number, Kind: filename.Value, FileBytes: uint64(s.Size), Records: s.Records, Bytes: s.ValueBytes, Stamp: s.Stamp, KeyID: s.KeyID,
		})
	}
	for _, m := range out.Forwardings {
		if l.Segment(m.Source) != nil { // or all of it has died meanwhile
			edit.States = append(edit.States, m.State())
		}
	}
}
