package manifest

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/run/meta"
	"github.com/brockdb/brock/vfs"
)

// TestRefreshMeetsAnotherCopy has a copy of the store, in which other things happened, take
// the place of the one that is followed: as long as it was, shorter, longer, and in another
// manifest. That is no store which has nothing new to tell.
func TestRefreshMeetsAnotherCopy(t *testing.T) {
	for name, c := range map[string]struct {
		edits     int // of the copy; the followed store has 6
		fileBytes int64
		same      bool // the copy has the same past
	}{
		"as long":      {6, 0, false},
		"longer":       {30, 0, false},
		"switched":     {30, 1000, false},
		"gone on":      {30, 0, true},
		"and switched": {30, 1000, true},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			write := func(dir string, edits int, sum uint32) {
				l := mustCreate(t, Options{Keys: testKeys, FS: fs, Dir: dir, FileBytes: c.fileBytes})
				for n := range entry.FileNum(edits) {
					r := layout.Run{ID: layout.RunID(n + 1), Order: uint64(n + 1), Run: meta.Run{Files: []meta.File{{Num: n + 1, Size: 4096, Checksum: sum}}}}
					mustAppend(t, l, &layout.Edit{AddRuns: []layout.Run{r}, NextFile: n + 2})
				}
				mustClose(t, l)
			}
			write("db", 6, 1)
			follower, err := Load(Options{Keys: testKeys, FS: fs, Dir: "db", ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := follower.Refresh(); err != nil {
				t.Fatal(err)
			}
			sum := uint32(2)
			if c.same {
				sum = 1
			}
			write("copy", c.edits, sum)
			bases, err := fs.List("copy")
			if err != nil {
				t.Fatal(err)
			}
			for _, base := range bases {
				put(t, fs, filepath.Join("db", base), get(t, fs, filepath.Join("copy", base)))
			}
			if testKeys != nil && c.same {
				return // frames of two stores have nothing in common
			}
			before := follower.Layout()
			err = follower.Refresh()
			switch {
			case c.same && (err != nil || len(follower.Layout().Runs()) != c.edits):
				t.Errorf("%d runs, %v", len(follower.Layout().Runs()), err)
			case !c.same && (!errors.Is(err, errs.ErrForeign) || follower.Layout() != before):
				t.Errorf("%d runs, %v, want ErrForeign", len(follower.Layout().Runs()), err)
			}
		})
	}
}
