package manifest

import (
	"errors"
	"testing"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/vfs"
)

// bigEdit is an edit of some 700 bytes that adds a segment.
func bigEdit(l *Log) *layout.Edit {
	return &layout.Edit{
		AddSegments: []layout.Segment{{Num: l.Layout().NextFile(), Kind: filename.Value, FileBytes: 1 << 20, Records: 1}},
		Unknown:     []layout.TLV{{Tag: 999, Value: make([]byte, 700)}},
	}
}

// A log that was stopped writes nothing more, not even that the last edit is durable.
func TestStoppedLogLeavesSuperAlone(t *testing.T) {
	mem := vfs.NewMem()
	full := faultfs.New(mem, faultfs.Options{})
	o := Options{Keys: testKeys, FS: full, Dir: "db", FileBytes: 2000}
	l := mustCreate(t, o)
	before := get(t, mem, "db/SUPER")
	broken := errors.New("close fails")
	full.Inject(faultfs.Fault{Kinds: faultfs.Close, Path: "MANIFEST-000001", Err: broken})
	for n := 0; l.Err() == nil; n++ {
		if n == 20 {
			t.Fatal("no new manifest was begun")
		}
		e := bigEdit(l)
		e.SetKeyspaces = []layout.Keyspace{{ID: 1, Name: "a"}} // stands alone
		before = get(t, mem, "db/SUPER")
		mustAppend(t, l, e)
	}
	if err := l.Err(); !errors.Is(err, errs.ErrStopped) || !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if string(get(t, mem, "db/SUPER")) != string(before) {
		t.Error("the log was stopped, and SUPER was written")
	}
	_ = l.Close()
}
