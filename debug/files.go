package debug

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"path/filepath"
	"sort"
	"strings"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
)

// file is a file of a store, as the page draws it. What use, tier and the rest mean, brock.FileInfo
// says; they are empty if the store doesn't name the file.
type file struct {
	Name       string `json:"name"`
	Kind       string `json:"kind"`  // run, value, journal, forwarding or other
	Group      string `json:"group"` // its kind; but feed, if only the change feed needs it, or kept, if the store doesn't name it
	Use        string `json:"use,omitempty"`
	Bytes      int64  `json:"bytes"` // its length
	Dead       int64  `json:"dead,omitempty"`
	Run        uint64 `json:"run,omitempty"`
	Tier       string `json:"tier,omitempty"`
	Entries    int64  `json:"entries,omitempty"`
	MinVersion uint64 `json:"minVersion,omitempty"`
	MaxVersion uint64 `json:"maxVersion,omitempty"`
	Time       int64  `json:"time,omitempty"` // when it was last written, in milliseconds since 1970
}

// maxFiles is how many files one answer has.
const maxFiles = 2000

// fileKinds are the kinds of files by the ends of their names (docs/format.md).
var fileKinds = map[string]string{".run": "run", ".val": "value", ".log": "journal", ".map": "forwarding"}

// filePage has the files of a store, the largest first.
type filePage struct {
	Files []file              `json:"files"`
	Kinds map[string]fileSums `json:"kinds"` // by group, of all files, also of those that are left out
	Total fileSums            `json:"total"`
}

type fileSums struct {
	Count int   `json:"count"`
	Bytes int64 `json:"bytes"`
	Dead  int64 `json:"dead"`
}

func (s *fileSums) add(f *file) {
	s.Count++
	s.Bytes += f.Bytes
	s.Dead += f.Dead
}

// listFiles answers with the files: those that the store names, with what it knows of them, and what
// else is in its directories.
func (h *handler) listFiles(r *http.Request) (any, error) {
	if _, err := h.db.Refresh(r.Context()); err != nil {
		return nil, err
	}
	named, err := brock.Files(h.db)
	if err != nil {
		return nil, err
	}
	var files []file
	at := make(map[string]int, len(named))
	for _, f := range named {
		at[f.Name] = len(files)
		files = append(files, file{
			Name: f.Name, Kind: f.Kind, Use: f.Use, Bytes: f.Bytes, Dead: f.Dead,
			Run: f.Run, Tier: f.Tier, Entries: f.Entries, MinVersion: f.MinVersion, MaxVersion: f.MaxVersion,
		})
	}
	err = h.scanFiles(r.Context(), func(name string, info vfs.Info) {
		i, known := at[name]
		if !known {
			i = len(files)
			files = append(files, file{Name: name, Kind: kindOf(name)})
		}
		files[i].Bytes, files[i].Time = info.Size, milliseconds(info.ModTime)
	})
	if err != nil {
		return nil, err
	}
	p := &filePage{Kinds: make(map[string]fileSums)}
	for i := range files {
		files[i].Group = h.groupOf(&files[i])
		sums := p.Kinds[files[i].Group]
		sums.add(&files[i])
		p.Kinds[files[i].Group] = sums
		p.Total.add(&files[i])
	}
	sort.SliceStable(files, func(i, j int) bool { return files[i].Bytes > files[j].Bytes })
	p.Files = append([]file{}, files[:min(maxFiles, len(files))]...)
	return p, nil
}

// groupOf returns the group in which a file is drawn.
func (h *handler) groupOf(f *file) string {
	switch {
	case f.Use == "feed":
		return "feed"
	case f.Use != "" || f.Kind == "other", f.Kind == "journal" && h.db.Options().Mode == brock.Follow: // its writer knows what is in it
		return f.Kind
	}
	return "kept"
}

// scanFiles calls found with the files in the directories of the store. Of a store in memory nobody
// else sees them.
func (h *handler) scanFiles(ctx context.Context, found func(name string, info vfs.Info)) error {
	o := h.db.Options()
	fsys := o.FS
	if fsys == nil {
		fsys = vfs.OS()
	}
	if o.InMemory || o.Dir == "" {
		return nil
	}
	dirs := []string{o.Dir}
	if o.ValueDir != "" && !vfs.Same(fsys, o.Dir, o.ValueDir) {
		dirs = append(dirs, o.ValueDir)
	}
	for _, dir := range dirs {
		names, err := fsys.List(dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			info, err := fsys.Stat(filepath.Join(dir, name))
			switch {
			case errors.Is(err, fs.ErrNotExist): // the store has just removed it
				continue
			case err != nil:
				return err
			case !info.IsDir:
				found(name, info)
			}
		}
	}
	return nil
}

// kindOf returns the kind of a file by its name.
func kindOf(name string) string {
	ext := filepath.Ext(name)
	if kind, ok := fileKinds[ext]; ok && strings.Trim(strings.TrimSuffix(name, ext), "0123456789") == "" {
		return kind
	}
	return "other"
}
