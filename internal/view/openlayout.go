package view

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/version/layout"
)

// OpenLayout opens the files that the manifest names into v. After an error v has those that were
// opened.
func (f *Opener) OpenLayout(l *layout.Layout, v *View) error {
	if _, err := f.NextView(nil, v, l, nil); err != nil {
		return err
	}
	for i, r := range v.Runs {
		r.WeighRanges(v.Runs[i+1:])
	}
	return nil
}

// MissingFile turns the absence of a file that must be there into a report of damage.
func MissingFile(err error, what string) error {
	var path *fs.PathError
	if !errors.As(err, &path) || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	c := errs.NewCorruption(filepath.Base(path.Path), -1, "%s is not there", what)
	c.Err = err
	return c
}
