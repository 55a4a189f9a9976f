package tree

import (
	"github.com/brockdb/brock/internal/compact"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/run/meta"
	"github.com/brockdb/brock/internal/view"
)

// done notes what came of a piece of work.
func (w *Work) done(out *compact.Output) {
	w.EntriesIn, w.Dropped, w.BytesOut = int64(out.Read), out.Dropped, outputBytes(out)
}

// outputBytes is the length of the files that were written.
func outputBytes(out *compact.Output) int64 {
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

// outputs are opened files that no View holds yet.
type outputs struct {
	runs   []*view.Run
	files  []*view.Segment
	remaps []*view.Segment
}

// discard closes the files, but leaves them on the disk.
func (o *outputs) discard() {
	for _, r := range o.runs {
		r.Reader.Close()
	}
	for _, f := range o.files {
		f.Reader.Close()
	}
	for _, f := range o.remaps {
		f.Moved.Close()
	}
}

func (f *files) openOutputs(edit *layout.Edit, out *compact.Output) (added outputs, err error) {
	defer func() {
		if err != nil {
			added.discard()
		}
	}()
	for i := range edit.AddRuns {
		r, err := f.openWritten(&edit.AddRuns[i])
		if err != nil {
			return added, err
		}
		added.runs = append(added.runs, r)
	}
	for _, s := range out.Values {
		opened, err := f.openSegment(filename.Value, s.Number, s.Size, s.Stamp)
		if err != nil {
			return added, err
		}
		added.files = append(added.files, opened)
	}
	for _, m := range out.Remaps {
		opened, err := f.openRemap(m.Number, m.Source, added.files[0])
		if err != nil {
			return added, err
		}
		added.remaps = append(added.remaps, opened)
	}
	return added, nil
}

// removeOutputs removes files that the manifest surely does not name.
func (f *files) removeOutputs(out *compact.Output) {
	for _, file := range out.Run.Files {
		f.remove(filename.New(filename.Run, file.Num))
	}
	for _, s := range out.Values {
		f.remove(filename.New(filename.Value, s.Number))
	}
	for _, m := range out.Remaps {
		f.remove(filename.New(filename.Remap, m.Number))
	}
}

// newRuns makes a run of what a writer finished, none if it is empty.
func newRuns(m meta.Run, tier layout.Tier) []layout.Run {
	if len(m.Files) == 0 {
		return nil
	}
	return []layout.Run{{ID: layout.RunID(m.Files[0].Num), Tier: tier, Run: m}}
}
