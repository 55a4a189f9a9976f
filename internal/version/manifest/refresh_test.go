package manifest

import (
	"errors"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/version/layout"
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
			write := func(l *Log, first, edits int, sum uint32) {
				for n := entry.FileNum(first); n < entry.FileNum(edits); n++ {
					r := layout.Run{ID: layout.RunID(n + 1), Order: uint64(n + 1), RunMeta: layout.RunMeta{Files: []layout.RunFile{{Num: n + 1, Size: 4096, Checksum: sum}}}}
					mustAppend(t, l, &layout.Edit{AddRuns: []layout.Run{r}, NextFile: n + 2})
				}
				mustClose(t, l)
			}
			o := Options{Keys: testKeys, FS: fs, Dir: "db", FileBytes: c.fileBytes}
			write(mustCreate(t, o), 0, 6, 1)
			follower, err := Load(Options{Keys: testKeys, FS: fs, Dir: "db", ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := follower.Refresh(); err != nil {
				t.Fatal(err)
			}
			if o.Dir = "copy"; c.same {
				if err := MakeDirs(o); err != nil {
					t.Fatal(err)
				}
				replace(t, fs, "copy", "db")
				l, err := Open(o)
				if err != nil {
					t.Fatal(err)
				}
				write(l, 6, c.edits, 1)
			} else {
				write(mustCreate(t, o), 0, c.edits, 2)
			}
			replace(t, fs, "db", "copy")
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
