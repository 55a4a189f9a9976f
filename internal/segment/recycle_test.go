package segment

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/vfs"
)

// TestRecycleTakesOnlyWhatIsOurs offers files that may not be used again, and a name
// that is in use: nothing changes.
func TestRecycleTakesOnlyWhatIsOurs(t *testing.T) {
	mem := vfs.NewMem()
	ours := Config{FS: mem, UUID: [16]byte{1}}
	theirs := Config{FS: mem, UUID: [16]byte{2}}
	for num, c := range map[entry.FileNum]Config{1: ours, 2: theirs, 3: ours} {
		closed(t, must(Create(c, Header{Kind: filename.Journal, Number: num, FirstFrame: 1}))(t))
	}
	f := must(mem.Create("000004.log"))(t)
	_ = must(f.WriteAt([]byte("another program's"), 0))(t)
	closed(t, f)
	before := listing(t, mem)
	for old, target := range map[entry.FileNum]entry.FileNum{1: 3, 2: 9, 4: 9, 5: 9} {
		h := Header{Kind: filename.Journal, Number: target, FirstFrame: 1}
		if _, err := Recycle(ours, h, filename.Of(filename.Journal, old)); err == nil {
			t.Errorf("file %d was used again as %d", old, target)
		}
	}
	if after := listing(t, mem); after != before {
		t.Errorf("changed from %s to %s", before, after)
	}
}

// listing is the names and bytes of all files.
func listing(t *testing.T, fsys vfs.FS) string {
	t.Helper()
	var all strings.Builder
	for _, base := range must(fsys.List(""))(t) {
		f := must(fsys.Open(base))(t)
		p := make([]byte, must(f.Size())(t))
		_ = must(f.ReadAt(p, 0))(t)
		closed(t, f)
		fmt.Fprintf(&all, "%s %q\n", base, p)
	}
	return all.String()
}

func closed(t *testing.T, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}
