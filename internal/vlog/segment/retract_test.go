package segment

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// A frame that is taken back has never been: the segment ends before it, for
// those who open it later and for a scan that had already seen a longer one.
func TestRetract(t *testing.T) { forms(t, testRetract) }

func testRetract(t *testing.T, testConfig func(testing.TB) Config) {
	for _, noMap := range []bool{false, true} {
		t.Run(fmt.Sprint(noMap), func(t *testing.T) {
			c := testConfig(t)
			w := must(Create(c, Header{Kind: filename.Journal, Number: 5, Before: frame.Name{Number: 6}}))(t)
			write := func(i, n int, ahead int64) {
				t.Helper()
				e := entry.Entry{Key: key(i), Value: value(i, n), Version: entry.Version(i), Kind: entry.Set}
				must(w.Append(Frame{Content: frame.Content{Kind: frame.Group, Payload: [][]byte{entry.AppendRecord(nil, &e, true)}}, Transactions: 1, Ahead: ahead}))(t)
			}
			write(1, 3<<20, 0) // longer than what a scan reads at once
			end, before := w.End(), w.at
			if write(2, 2<<20, 6<<20); w.Allocated() != 6<<20 {
				t.Errorf("%d bytes are allocated, want 6 MiB", w.Allocated())
			}
			r := must(w.OpenReader(64<<20, noMap))(t)
			defer r.Close()
			var seen []string
			err := r.Scan(true, func(_ int64, rec *entry.Record) error {
				seen = append(seen, string(rec.Key))
				return w.Retract()
			})
			if err != nil || len(seen) != 1 || seen[0] != string(key(1)) {
				t.Errorf("a scan meanwhile finds %q, %v", seen, err)
			}
			if w.End() != end || w.at != before || w.at.Number != 7 || w.Allocated() != end {
				t.Errorf("the segment ends at %d, %d bytes are allocated, next frame %d", w.End(), w.Allocated(), w.at.Number+1)
			}
			if _, err := w.Append(Frame{Content: frame.Content{Kind: frame.Group}}); !errors.Is(err, errs.ErrInvalid) {
				t.Errorf("append behind it: %v", err)
			}
			if err := errors.Join(w.Sync(), w.Close()); err != nil {
				t.Error(err)
			}
			again := must(openAny(c, filename.Journal, 5, OpenOptions{NoMap: noMap}))(t)
			defer again.Close()
			n := 0
			err = again.Scan(true, func(off int64, rec *entry.Record) error {
				n++
				got, err := plain(again.ValueOf(off, rec))
				if !bytes.Equal(got, value(1, 3<<20)) {
					t.Error("another value")
				}
				return err
			})
			if err != nil || n != 1 || again.End() != end {
				t.Errorf("%d records up to %d, %v", n, again.End(), err)
			}
		})
	}
}
