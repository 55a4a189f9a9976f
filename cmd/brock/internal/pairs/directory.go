package pairs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/vfs"
)

// directory is a tree of files. Each regular file is a pair: its path with
// slashes, relative to the root, and its content. Symbolic links and devices
// are left out.
type directory struct {
	root  *os.Root
	files []string // paths
	bytes int64
}

func openDirectory(path string) (*directory, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	d := &directory{root: root}
	err = fs.WalkDir(root.FS(), ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		if e.Name() == filename.Of(filename.Super, 0) {
			store := filepath.Join(path, filepath.Dir(p))
			if _, err := manifest.ReadSuper(vfs.OS(), store); !errors.Is(err, errs.ErrForeign) {
				return &SyntaxError{File: store, Reason: "it is a Brock store; brock dump writes its pairs to a file"}
			}
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		d.files = append(d.files, p)
		d.bytes += info.Size()
		return nil
	})
	if err != nil {
		_ = root.Close()
		if errors.Is(err, ErrInput) {
			return nil, err
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

func (d *directory) Bytes() int64     { return d.bytes }
func (d *directory) Headerless() bool { return false }

func (d *directory) Each(fn func(Pair, Place) error) error {
	for _, f := range d.files {
		content, err := d.root.ReadFile(filepath.FromSlash(f))
		if err != nil {
			return err
		}
		if err := fn(Pair{Key: []byte(f), Value: content}, Place{Span{Size: int64(len(content))}, f}); err != nil {
			return err
		}
	}
	return nil
}

func (d *directory) Again() Rereader { return d }

func (d *directory) Value(key []byte, _ Place) ([]byte, error) {
	content, err := d.root.ReadFile(filepath.FromSlash(string(key)))
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrChanged
	}
	return content, err
}

func (d *directory) Close() error { return d.root.Close() }
