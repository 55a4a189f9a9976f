package view

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/base/codec"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/lsm/run"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/segment"
	"github.com/brockdb/brock/vfs"
)

// forged is a View of a segment and a run with n entries, whose handles wrong may change.
func forged(t *testing.T, n int, wrong func(entries []entry.Entry)) (*View, segment.Config) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	fs := vfs.NewMem()
	must(fs.MkdirAll("/s"))
	cfg := segment.Config{FS: fs, Dir: "/s", UUID: [16]byte{7}}
	values, err := segment.NewValueWriter(cfg, 1)
	must(err)
	seg := layout.Segment{Num: 1, Kind: filename.Value}
	var entries []entry.Entry
	for i := range n {
		e := entry.Entry{Key: fmt.Appendf(nil, "key%05d", i), Value: make([]byte, 100), Version: entry.Version(i + 1), Kind: entry.Set}
		h, err := values.Add(&e)
		must(err)
		e.Value, e.Handle, e.Separated = nil, h, true
		entries = append(entries, e)
		seg.Records, seg.Bytes = seg.Records+1, seg.Bytes+h.Length
	}
	stats, err := values.Finish()
	must(err)
	seg.FileBytes = uint64(stats.Size)
	wrong(entries)
	w := run.NewWriter(run.WriterConfig{FS: fs, Dir: "/s", UUID: cfg.UUID, NextNum: func() entry.FileNum { return 2 }})
	for i := range entries {
		must(w.Add(&entries[i]))
	}
	m, err := w.Finish()
	must(err)
	l, err := layout.New().Apply(&layout.Edit{AddSegments: []layout.Segment{seg}, AddRuns: []layout.Run{{ID: 2, RunMeta: m}}})
	must(err)
	s, err := segment.Open(cfg, filename.Value, 1, segment.OpenOptions{})
	must(err)
	t.Cleanup(func() { _ = s.Close() })
	r, err := run.Open(run.OpenConfig{FS: fs, Dir: "/s", UUID: cfg.UUID}, m)
	must(err)
	t.Cleanup(func() { _ = r.Close() })
	v := &View{Layout: l, Segments: NewSegments([]*Segment{{Reader: s, Num: 1}}), Runs: []*Run{{Reader: r, ID: 2}}}
	return v, cfg
}

// A handle that leads to another record than its own is found, though all checksums are
// right, and named.
func TestVerifyFindsWrongHandles(t *testing.T) {
	for name, c := range map[string]struct {
		wrong func(entries []entry.Entry)
		want  int
	}{
		"none":    {func([]entry.Entry) {}, 0},
		"swapped": {func(e []entry.Entry) { e[3].Handle, e[40].Handle = e[40].Handle, e[3].Handle }, 2},
		"offset":  {func(e []entry.Entry) { e[3].Handle.Offset += 64 }, 1},
		"length":  {func(e []entry.Entry) { e[3].Handle.Length++; e[4].Handle.Length-- }, 2},
		"version": {func(e []entry.Entry) { e[3].Version += 5 }, 1},
		"key":     {func(e []entry.Entry) { e[3].Key[7], e[4].Key[7] = e[4].Key[7], e[3].Key[7]; e[3], e[4] = e[4], e[3] }, 2},
		"raw":     {func(e []entry.Entry) { e[3].Raw = 1000 }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			v, cfg := forged(t, 100, c.wrong)
			var found []string
			err := v.Verify(context.Background(), cfg, new(codec.Coder), func(c *errs.Corruption) { found = append(found, c.Error()) })
			if err != nil || len(found) != c.want {
				t.Errorf("found %d, want %d: %s, %v", len(found), c.want, strings.Join(found, "\n"), err)
			}
		})
	}
}
