package files

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/segment"
	"github.com/brockdb/brock/internal/view"
)

// OpenLayout opens the runs and segments that the manifest names.
func (f *Opener) OpenLayout(layout *layout.Layout, v *view.View) error {
	for _, m := range layout.Runs() {
		r, err := f.OpenRun(m)
		if err != nil {
			return Missing(err, "a run that the manifest names")
		}
		v.Runs = append(v.Runs, r)
	}
	for i, r := range v.Runs {
		r.WeighRanges(v.Runs[i+1:])
	}
	if err := f.openSegments(layout, v); err != nil {
		return err
	}
	return f.openRemaps(layout, v)
}

// openSegments opens the segments that have their records.
func (f *Opener) openSegments(l *layout.Layout, v *view.View) error {
	var files []*view.Segment
	defer func() { v.Segments = view.NewSegments(files) }()
	for _, s := range l.Segments() {
		if s.State().Status != layout.Live {
			continue
		}
		opened, err := f.OpenSegment(s.Kind, s.Num, OptionsOf(s))
		if err != nil {
			return Missing(err, "a segment that the manifest names")
		}
		files = append(files, opened)
	}
	return nil
}

// OptionsOf is how a segment that a layout names is opened.
func OptionsOf(s *layout.Segment) segment.OpenOptions {
	return segment.OpenOptions{End: int64(s.FileBytes), Stamp: s.Stamp, Life: s.Life}
}

// openRemaps opens what leads to the records of relocated segments.
func (f *Opener) openRemaps(l *layout.Layout, v *view.View) error {
	var remaps []*view.Segment
	defer func() { v.Segments = v.Segments.With(remaps...) }()
	for _, s := range l.Segments() {
		st := s.State()
		if st.Status != layout.Relocated {
			continue
		}
		target := v.Segments.Find(st.Target)
		if target == nil || target.Moved != nil {
			return fmt.Errorf("segment %d is relocated to segment %d, which is relocated itself: %w", s.Num, st.Target, errs.ErrFormat)
		}
		opened, err := f.OpenRemap(st, target)
		if err != nil {
			return Missing(err, "a remap that the manifest names")
		}
		remaps = append(remaps, opened)
	}
	return nil
}

// Missing turns the absence of a file that must be there into a report of damage.
func Missing(err error, what string) error {
	var path *fs.PathError
	if !errors.As(err, &path) || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	c := errs.NewCorruption(filepath.Base(path.Path), -1, "%s is not there", what)
	c.Err = err
	return c
}
