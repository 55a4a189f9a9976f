package manifest

import (
	"fmt"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/vfs"
)

// TestFailedSyncsOfSuper: a sync of SUPER fails while a new manifest takes over, another one while
// the store is opened again by the same system. The next Open removes the old manifest. A loss of
// power at any moment leaves a store that opens and has what was acknowledged.
func TestFailedSyncsOfSuper(t *testing.T) {
	for first := 1; ; first++ {
		for second := 0; ; second++ {
			if f := failedSyncsOfSuper(t, first, second); f == 0 {
				return
			} else if f == 1 && second > 0 {
				break
			}
		}
	}
}

// failedSyncsOfSuper returns how many of the two syncs have failed, counted from 1; 0 is none.
func failedSyncsOfSuper(t *testing.T, first, second int) (failed int) {
	mem, made := vfs.NewMem(), 0
	what := fmt.Sprintf("syncs %d and %d of SUPER failed", first, second)
	fsys := faultfs.New(mem, faultfs.Options{Before: func(op faultfs.Op) {
		if op.Kind&(faultfs.Changes|faultfs.Syncs) == 0 {
			return
		}
		for i, mode := range crashModes {
			clone := mem.CrashClone(vfs.CrashOptions{Mode: mode, Seed: uint64(made + i)})
			l, err := Open(Options{Keys: testKeys, FS: clone, Dir: "db"})
			if err != nil {
				if made > 0 {
					t.Fatalf("%s, crash %v before %v: %v", what, mode, op, err)
				}
				continue
			}
			if n := len(l.Layout().Segments()); n < made || n > made+1 {
				t.Errorf("%s, crash %v before %v: %d segments, want %d", what, mode, op, n, made)
			}
			mustClose(t, l)
		}
	}})
	o := Options{Keys: testKeys, FS: fsys, Dir: "db", FileBytes: 2000}
	l := mustCreate(t, o)
	fsys.Inject(faultfs.Fault{Kinds: faultfs.Sync, Path: "SUPER", Nth: first})
	for range 8 {
		n := l.Layout().NextFile()
		_, err := l.Append(&layout.Edit{
			AddSegments: []layout.Segment{{Num: n, Kind: filename.Value, FileBytes: 1 << 20, Records: 1}},
			LastVersion: entry.Version(n), Unknown: []layout.TLV{{Tag: 999, Value: make([]byte, 700)}},
		})
		if err != nil {
			break
		}
		made++
	}
	_ = l.Close() // it may have stopped
	failed = fsys.Struck()
	fsys.Heal()
	if second > 0 && failed > 0 {
		fsys.Inject(faultfs.Fault{Kinds: faultfs.Sync, Path: "SUPER", Nth: second})
		if l, err := Open(o); err == nil {
			_ = l.Close()
		}
		failed = fsys.Struck()
		fsys.Heal()
	}
	for range 2 {
		l, err := Open(o)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		mustClose(t, l)
	}
	return failed
}
