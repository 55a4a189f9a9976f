package manifest

import (
	"errors"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/vfs"
)

// TestRegister: an end is added unless a recorded one says as much, and the next
// Open finds it.
func TestRegister(t *testing.T) {
	fs := faultfs.New(vfs.NewMem(), faultfs.Options{})
	l := mustCreate(t, Options{Keys: testKeys, FS: fs, Dir: "db"})
	edits := func() uint64 { return l.end.Number }
	register := func(segment, number, want uint64) {
		t.Helper()
		before := edits()
		if err := l.Register(frame.End{Name: frame.Name{File: entry.FileNum(segment), Number: number}}); err != nil || edits() != before+want {
			t.Errorf("segment %d, frame %d: %v, %d edits", segment, number, err, edits()-before)
		}
	}
	register(3, 5, 1)
	register(3, 5, 0)
	register(3, 4, 0)
	// Work that ends says more of it.
	mustAppend(t, l, &layout.Edit{FlushedTo: 3, JournalEnds: []frame.End{{Name: frame.Name{File: 3, Number: 8, Sum: 1}, Offset: 9000}}})
	register(3, 8, 0)
	register(4, 9, 1)
	mustAppend(t, l, &layout.Edit{JournalEnds: []frame.End{{Name: frame.Name{File: 4, Number: 10, Sum: 1}, Offset: 5000}}})

	fs.Inject(faultfs.Fault{Kinds: faultfs.Write, Err: faultfs.ErrNoSpace, Short: true})
	if err := l.Register(frame.End{Name: frame.Name{File: 6, Number: 11}}); !errors.Is(err, errs.ErrNoSpace) || errors.Is(err, errs.ErrStopped) {
		t.Errorf("on a full disk: %v", err)
	}
	register(6, 11, 1)
	mustClose(t, l)
	if err := l.Register(frame.End{Name: frame.Name{File: 6, Number: 12}}); !errors.Is(err, errs.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	l, err := Open(Options{Keys: testKeys, FS: fs, Dir: "db"})
	if err != nil {
		t.Fatal(err)
	}
	ends := l.Layout().JournalEnds()
	if n := len(ends); n != 3 || ends[n-1] != (frame.End{Name: frame.Name{File: 6, Number: 11}}) {
		t.Errorf("%+v", ends)
	}
	mustClose(t, l)
}
