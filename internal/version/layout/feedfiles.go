package layout

import (
	"iter"

	"github.com/brockdb/brock/internal/disk/filename"
)

// Feed is what stays for the change feed. Its slices must not be written to.
func (l *Layout) Feed() Feed { return l.feed }

// AllFiles walks the files of Files, and those that only the change feed needs.
func (l *Layout) AllFiles() iter.Seq[File] {
	return func(yield func(File) bool) {
		seen := make(map[filename.Name]bool)
		for f := range l.Files() {
			if !yield(f) {
				return
			}
			if !l.feed.Empty() {
				seen[f.Name] = true
			}
		}
		for f := range feedFiles(l.feed) {
			if !seen[f.Name] && !yield(f) {
				return
			}
		}
	}
}

// feedFiles walks the files of a feed.
func feedFiles(f Feed) iter.Seq[File] {
	return func(yield func(File) bool) {
		for _, s := range f.Segments {
			if !yield(File{Name: filename.New(filename.Journal, s.File), Size: s.Offset, KeyID: s.KeyID}) {
				return
			}
		}
		for i := range f.Commits {
			for _, file := range f.Commits[i].Run.Files {
				if !yield(File{Name: filename.New(filename.Run, file.Num), Size: int64(file.Size), KeyID: file.KeyID}) {
					return
				}
			}
			for _, s := range f.Commits[i].Segments {
				if !yield(File{Name: filename.New(s.Kind, s.Num), Size: int64(s.FileBytes), KeyID: s.KeyID}) {
					return
				}
			}
		}
	}
}
