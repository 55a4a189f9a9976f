package layout

import (
	"cmp"
	"slices"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// What stays for the change feed when nobody else needs it any more.

// FeedSegment is a journal segment whose records are all in runs, and which the change feed reads.
type FeedSegment struct {
	frame.End               // its last frame
	Last      entry.Version // the newest version in it
}

// FeedCommit is a commit that is in no journal segment: only an edit tells of it. It is either a
// transaction larger than its memory, with a Run, or it makes or drops a keyspace, or it changes
// nothing and only takes a version.
type FeedCommit struct {
	Version  entry.Version
	Skipped  uint64    // how many versions right before Version no commit has
	Run      Run       // as the transaction has written it; without files: there is none
	Segments []Segment // that have its large values
	Keyspace KeyspaceChange
}

// IsSpill reports whether c is a transaction with a Run.
func (c *FeedCommit) IsSpill() bool { return len(c.Run.Files) > 0 }

// KeyspaceChange says that a keyspace was made or dropped.
type KeyspaceChange struct {
	ID      entry.KeyspaceID // DefaultKeyspace: none was
	Name    string
	Dropped bool
}

// Feed is the history that the change feed can read, ascending by version. Between the first item
// and the journal behind FlushedTo no version is missing.
type Feed struct {
	Segments []FeedSegment
	Commits  []FeedCommit
}

// Empty reports whether nothing stays for the feed.
func (f Feed) Empty() bool { return len(f.Segments)+len(f.Commits) == 0 }

// Newest returns the newest version in the feed; 0: there is none.
func (f Feed) Newest() entry.Version {
	if items := f.Items(); len(items) > 0 {
		return items[len(items)-1].Last
	}
	return 0
}

// NewestUnder returns the newest version in a file whose file key id is as is says; 0: there is none.
func (f Feed) NewestUnder(is func(crypt.FileKeyID) bool) (v entry.Version) {
	for _, s := range f.Segments {
		if is(s.KeyID) {
			v = max(v, s.Last)
		}
	}
	for i := range f.Commits {
		c := &f.Commits[i]
		if slices.ContainsFunc(c.Run.Files, func(f RunFile) bool { return is(f.KeyID) }) {
			v = max(v, c.Version)
		}
	}
	return v
}

// FeedItem is what goes from the feed as a whole.
type FeedItem struct {
	Last  entry.Version // newest version in it
	Bytes int64         // of its files
}

// feedItemBytes is what an item counts for beside its files.
const feedItemBytes = 256

// Items lists the segments and commits, ascending by version.
func (f Feed) Items() (items []FeedItem) {
	for _, s := range f.Segments {
		items = append(items, FeedItem{s.Last, s.Offset + feedItemBytes})
	}
	for i := range f.Commits {
		c := &f.Commits[i]
		item := FeedItem{c.Version, feedItemBytes}
		for _, f := range c.Run.Files {
			item.Bytes += int64(f.Size)
		}
		for _, s := range c.Segments {
			item.Bytes += int64(s.FileBytes)
		}
		items = append(items, item)
	}
	slices.SortFunc(items, func(a, b FeedItem) int { return cmp.Compare(a.Last, b.Last) })
	return items
}

// Feed is what stays for the change feed. Its slices must not be written to.
func (l *Layout) Feed() Feed { return l.feed }

// AllFiles lists the files of Files, and then those of the change feed, some of which come again.
func (l *Layout) AllFiles() []File {
	files := slices.Collect(l.Files())
	for _, s := range l.feed.Segments {
		files = append(files, File{Name: filename.New(filename.Journal, s.File), Size: s.Offset, KeyID: s.KeyID})
	}
	for i := range l.feed.Commits {
		c := &l.feed.Commits[i]
		for _, f := range c.Run.Files {
			files = append(files, File{Name: filename.New(filename.Run, f.Num), Size: int64(f.Size), KeyID: f.KeyID})
		}
		for _, s := range c.Segments {
			files = append(files, File{Name: filename.New(s.Kind, s.Num), Size: int64(s.FileBytes), KeyID: s.KeyID})
		}
	}
	return files
}
