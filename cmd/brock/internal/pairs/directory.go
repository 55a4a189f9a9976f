package pairs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// directory is a tree of files. Each regular file is a pair: its path with
// slashes, relative to the root, and its content. Symbolic links and devices
// are left out.
type directory struct {
	root  *os.Root
	files []treeFile
	bytes int64
}

type treeFile struct {
	path string
	stamp
}

// stamp tells whether a file was written to.
type stamp struct {
	size    int64
	written time.Time
}

func stampOf(info fs.FileInfo) stamp { return stamp{info.Size(), info.ModTime()} }

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
		info, err := e.Info()
		if err != nil {
			return err
		}
		d.files = append(d.files, treeFile{p, stampOf(info)})
		d.bytes += info.Size()
		return nil
	})
	if err != nil {
		_ = root.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

func (d *directory) Bytes() int64     { return d.bytes }
func (d *directory) Headerless() bool { return false }

func (d *directory) Each(fn func(Pair, Place) error) error {
	for _, f := range d.files {
		content, err := d.root.ReadFile(filepath.FromSlash(f.path))
		if err != nil {
			return err
		}
		if err := fn(Pair{Key: []byte(f.path), Value: content}, Place{File: f.path, stamp: f.stamp}); err != nil {
			return err
		}
	}
	return nil
}

func (d *directory) Again(key []byte, at Place) ([]byte, error) {
	path := filepath.FromSlash(string(key))
	info, err := d.root.Stat(path)
	if err != nil {
		return nil, err
	}
	if stampOf(info) != at.stamp {
		return nil, fmt.Errorf("%s: %w", key, ErrChanged)
	}
	return d.root.ReadFile(path)
}

func (d *directory) Close() error { return d.root.Close() }
