package manifest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/vfs"
)

// Whatever write or creation finds the disk full, for however long: an edit is
// refused whole, or made; it can be made again with the same log; and a crash in
// between finds what was acknowledged, and no more than that and one edit asked for. Of each
// refusal one of the crash modes is tried, of the next one the next; with -every all.
func TestFullDiskAtEveryWrite(t *testing.T) {
	const edits = 12 // with new manifests between
	refused, first := 0, draw.Rand(t).IntN(len(crashModes))
	for _, times := range []int{1, 3, 7} {
		for _, short := range []bool{false, true} {
			for nth := 1; ; nth++ {
				mem := vfs.NewMem()
				full := faultfs.New(mem, faultfs.Options{})
				o := Options{Keys: testKeys, FS: full, Dir: "db", FileBytes: 2000}
				l := mustCreate(t, o)
				full.Inject(faultfs.Fault{Kinds: faultfs.Write | faultfs.Create, Nth: nth, Times: times, Err: faultfs.ErrNoSpace, Short: short})
				what := fmt.Sprintf("write %d, %d times, short %v", nth, times, short)
				for made, tries := 0, 0; made < edits; tries++ {
					n := l.Layout().NextFile()
					next, err := l.Append(&layout.Edit{
						AddSegments: []layout.Segment{{Num: n, Kind: filename.Value, FileBytes: 1 << 20, Records: 1}},
						LastVersion: entry.Version(n), Unknown: []layout.TLV{{Tag: 999, Value: make([]byte, 700)}},
					})
					switch {
					case err == nil:
						if made++; len(next.Segments()) != made {
							t.Fatalf("%s: %d segments after %d edits", what, len(next.Segments()), made)
						}
					case !errors.Is(err, errs.ErrNoSpace) || errors.Is(err, errs.ErrStopped) || len(l.Layout().Segments()) != made:
						t.Fatalf("%s: %v; %d segments after %d edits", what, err, len(l.Layout().Segments()), made)
					default:
						refused++
						for i, mode := range crashModes {
							if !*every && (first+refused+i)%len(crashModes) != 0 {
								continue
							}
							clone := mem.CrashClone(vfs.CrashOptions{Mode: mode, Seed: uint64(nth + i)})
							checkAfterCrash(t, clone, made, made, what, mode == vfs.All)
						}
					}
					if tries > edits+times {
						t.Fatalf("%s: refused for ever: %v", what, err)
					}
				}
				if err := l.Close(); err != nil && !errors.Is(err, errs.ErrNoSpace) {
					t.Fatalf("%s: close: %v", what, err)
				}
				checkAfterCrash(t, mem.CrashClone(vfs.CrashOptions{}), edits, edits, what, false)
				if full.Struck() == 0 {
					break
				}
			}
		}
	}
	if refused == 0 {
		t.Error("no edit was refused")
	}
}

// Want of space that a sync reports stops the log: the edit may be durable or not.
func TestSyncWithoutSpaceStops(t *testing.T) {
	full := faultfs.New(vfs.NewMem(), faultfs.Options{})
	l := mustCreate(t, Options{Keys: testKeys, FS: full, Dir: "db"})
	full.Inject(faultfs.Fault{Kinds: faultfs.Syncs, Err: faultfs.ErrNoSpace})
	for range 2 {
		if _, err := l.Append(&layout.Edit{LastVersion: 1}); !errors.Is(err, errs.ErrStopped) || !errors.Is(err, errs.ErrNoSpace) {
			t.Errorf("append: %v", err)
		}
	}
	mustClose(t, l)
	// Nor is an edit forgotten if it can't be taken back for sure.
	for _, kinds := range []faultfs.Kind{faultfs.Truncate, faultfs.Sync} {
		full := faultfs.New(vfs.NewMem(), faultfs.Options{})
		l := mustCreate(t, Options{Keys: testKeys, FS: full, Dir: "db"})
		full.Inject(faultfs.Fault{Kinds: faultfs.Write, Err: faultfs.ErrNoSpace, Short: true}, faultfs.Fault{Kinds: kinds, Err: faultfs.ErrNoSpace})
		for range 2 {
			if _, err := l.Append(&layout.Edit{LastVersion: 1}); !errors.Is(err, errs.ErrStopped) || !errors.Is(err, errs.ErrNoSpace) {
				t.Errorf("%v fails: append: %v", kinds, err)
			}
		}
		mustClose(t, l)
	}
}

// A failed sync of either SUPER stops the log: another Renew would write over the other slot, the
// only one that is surely whole.
func TestFailedSyncOfSupersStops(t *testing.T) {
	for nth := 1; ; nth++ {
		fsys := faultfs.New(vfs.NewMem(), faultfs.Options{})
		o := Options{Keys: testKeys, FS: fsys, Dir: "db", ValueDir: "values"}
		l := mustCreate(t, o)
		fsys.Inject(faultfs.Fault{Kinds: faultfs.Sync, Path: "SUPER", Nth: nth, Err: faultfs.ErrNoSpace})
		err := l.Renew()
		if fsys.Struck() == 0 {
			mustClose(t, l)
			return
		}
		if again := l.Renew(); !errors.Is(err, errs.ErrStopped) || !errors.Is(again, errs.ErrStopped) {
			t.Errorf("sync %d: renew: %v, then %v", nth, err, again)
		}
		mustClose(t, l)
	}
}
