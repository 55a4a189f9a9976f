package segment

import (
	"errors"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// Zeros ahead come with the frame's own write, and only the frame must be written: a full
// disk may refuse them. Any other failure is one of the frame.
func TestZerosComeWithTheFrame(t *testing.T) { forms(t, testZerosComeWithTheFrame) }

func testZerosComeWithTheFrame(t *testing.T, testConfig func(testing.TB) Config) {
	for _, c := range []struct {
		name    string
		fault   faultfs.Fault
		written bool // the frame is
	}{
		{"whole", faultfs.Fault{Nth: 100}, true},
		{"full behind the frame", faultfs.Fault{Nth: 2, Err: faultfs.ErrNoSpace, Short: true}, true},
		{"full", faultfs.Fault{Nth: 2, Err: faultfs.ErrNoSpace}, false},
		{"failed behind the frame", faultfs.Fault{Nth: 2, Short: true}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := testConfig(t)
			fs := faultfs.New(cfg.FS, faultfs.Options{})
			cfg.FS = fs
			c.fault.Kinds = faultfs.Write
			w := must(Create(cfg, Header{Kind: filename.Journal, Number: 3}))(t)
			before := fs.Count(faultfs.Write, "")
			fs.Inject(c.fault)
			must(w.Append(journalFrame(1, 100, true)))(t)
			f := journalFrame(2, 100, true)
			f.Ahead = 1 << 20
			end := w.End()
			_, err := w.Append(f)
			if (err == nil) != c.written {
				t.Fatalf("append: %v", err)
			}
			if n := fs.Count(faultfs.Write, "") - before; n != 2 {
				t.Errorf("%d writes for two frames", n)
			}
			want := f.Ahead
			if c.fault.Nth == 2 {
				want = end + (want-end)/2
			}
			if !c.written {
				if err := w.CutBack(); err != nil {
					t.Fatal(err)
				}
				want = end
			} else {
				must(w.Append(journalFrame(3, 100, true)))(t) // over the zeros
				end, want = w.End(), max(want, w.End())
			}
			if w.End() != end || w.Allocated() != want {
				t.Errorf("ends at %d of %d bytes, want %d of %d", w.End(), w.Allocated(), end, want)
			}
			if err := errors.Join(w.Sync(), w.Close()); err != nil {
				t.Fatal(err)
			}
			r := must(openAny(cfg, filename.Journal, 3, OpenOptions{End: w.End()}))(t)
			defer r.Close()
			n := uint64(1)
			if c.written {
				n = 3
			}
			if totals, err := scanTotals(r, true, func(int64, *entry.Record) error { return nil }); err != nil || totals.Records != n {
				t.Errorf("scan: %+v, %v", totals, err)
			}
			if tail, err := SearchTail(cfg, filename.Journal, 3, end, w.at.Number+1); err != nil || tail != (frame.Tail{End: end, Used: end}) {
				t.Errorf("behind the end: %+v, %v", tail, err)
			}
		})
	}
}
