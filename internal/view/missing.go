package view

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/brockdb/brock/internal/base/errs"
)

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
