package run

import (
	"errors"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/run/meta"
	"github.com/brockdb/brock/internal/tombstone"
)

// A run's bounds of keys and versions are those of its tombstones too.
func TestTombstonesExtendTheBounds(t *testing.T) {
	for which, want := range []struct {
		first, last string
		min, max    entry.Version
	}{
		{"\x00apple", string(meta.Upper([]byte("\x00fig" + strings.Repeat("g", 300)))), 10, 1 << 50},
		{"\x00", "\x01", 9, 1 << 55},
		{"\x00", "\x01", 9, 1 << 55},
	} {
		_, m := goldenFile(t, which)
		if string(m.First) != want.first || string(m.Last) != want.last || m.MinVersion != want.min || m.MaxVersion != want.max {
			t.Errorf("%s: %q to %q, versions %d to %d", goldens[which].name, m.First, m.Last, m.MinVersion, m.MaxVersion)
		}
		if n := tombstone.New(goldens[which].tombstones...).All(); m.Tombstones != uint64(len(n)) {
			t.Errorf("%s: %d tombstones, want %d", goldens[which].name, m.Tombstones, len(n))
		}
	}
}

// A run of tombstones alone is found empty whatever it is asked.
func TestRunWithoutEntries(t *testing.T) {
	dir := t.TempDir()
	m := writeRun(t, writerConfig(dir), nil, goldenTombstones()...)
	r := openRun(t, openConfig(dir, false), m)
	it := r.Iterator()
	var e entry.Entry
	key := []byte("\x00c")
	found, err := r.Get(key, 1, entry.MaxVersion, &e)
	if found || err != nil || it.First() || it.Last() || it.SeekGE(key) || it.SeekLT(key) || it.Next() || it.Prev() || it.Err() != nil {
		t.Error("there is an entry", found, err, it.Err())
	}
	changed, err := r.ChangedSince(key, nil, 0)
	if n, _, _ := r.Size(nil, nil); n != 0 || changed || err != nil || len(r.Split(4)) != 0 {
		t.Error("there is something", n, changed, err)
	}
	r.Verify(func(c *errs.Corruption) { t.Error(c) })
}

func TestWriterRefusesBadTombstones(t *testing.T) {
	w := NewWriter(writerConfig(t.TempDir()))
	if err := w.AddTombstone(tombstone.Tombstone{Lo: []byte("b"), Hi: []byte("a"), Version: 1}); !errors.Is(err, errs.ErrInvalid) {
		t.Error(err)
	}
}
