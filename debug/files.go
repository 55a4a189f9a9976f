package debug

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"path/filepath"
	"sort"
	"strings"

	"github.com/brockdb/brock/vfs"
)

// File is a file of a store, as the page draws it.
type File struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`            // run, value, journal, forwarding or other
	Bytes int64  `json:"bytes"`           // its length
	Dead  int64  `json:"dead,omitempty"`  // of these, bytes that nothing needs, as far as known
	About string `json:"about,omitempty"` // what it is for
	Group string `json:"group,omitempty"` // files of one group belong together, as those of a tier
	Time  int64  `json:"time,omitempty"`  // when it was last written, in milliseconds since 1970
}

// maxFiles is how many files one answer has.
const maxFiles = 2000

// fileKinds are the kinds of files by the ends of their names (docs/format.md).
var fileKinds = map[string]string{".run": "run", ".val": "value", ".log": "journal", ".map": "forwarding"}

// filePage has the files of a store, the largest first.
type filePage struct {
	Files []File              `json:"files"`
	Kinds map[string]fileSums `json:"kinds"` // of all files, also of those that are left out
	Dead  bool                `json:"dead"`  // Dead is known of each file
	Total fileSums            `json:"total"`
}

type fileSums struct {
	Count int   `json:"count"`
	Bytes int64 `json:"bytes"`
	Dead  int64 `json:"dead"`
}

func (s *fileSums) add(f *File) {
	s.Count++
	s.Bytes += f.Bytes
	s.Dead += f.Dead
}

// listFiles answers with the files.
func (h *handler) listFiles(r *http.Request) (any, error) {
	list := h.files
	if list == nil {
		list = h.scanFiles
	}
	files, err := list(r.Context())
	if err != nil {
		return nil, err
	}
	p := &filePage{Kinds: make(map[string]fileSums), Dead: h.files != nil}
	for i := range files {
		sums := p.Kinds[files[i].Kind]
		sums.add(&files[i])
		p.Kinds[files[i].Kind] = sums
		p.Total.add(&files[i])
	}
	sort.SliceStable(files, func(i, j int) bool { return files[i].Bytes > files[j].Bytes })
	p.Files = append([]File{}, files[:min(maxFiles, len(files))]...)
	return p, nil
}

// scanFiles lists the directories of the store. Of a store in memory nobody else sees the files.
func (h *handler) scanFiles(ctx context.Context) (files []File, err error) {
	o := h.db.Options()
	fsys := o.FS
	if fsys == nil {
		fsys = vfs.OS()
	}
	if o.InMemory || o.Dir == "" {
		return nil, nil
	}
	dirs := []string{o.Dir}
	if o.ValueDir != "" && !vfs.Same(fsys, o.Dir, o.ValueDir) {
		dirs = append(dirs, o.ValueDir)
	}
	for _, dir := range dirs {
		names, err := fsys.List(dir)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			info, err := fsys.Stat(filepath.Join(dir, name))
			switch {
			case errors.Is(err, fs.ErrNotExist): // the store has just removed it
				continue
			case err != nil:
				return nil, err
			case info.IsDir:
				continue
			}
			files = append(files, File{Name: name, Kind: kindOf(name), Bytes: info.Size, Time: milliseconds(info.ModTime)})
		}
	}
	return files, nil
}

// kindOf returns the kind of a file by its name.
func kindOf(name string) string {
	ext := filepath.Ext(name)
	if kind, ok := fileKinds[ext]; ok && strings.Trim(strings.TrimSuffix(name, ext), "0123456789") == "" {
		return kind
	}
	return "other"
}
