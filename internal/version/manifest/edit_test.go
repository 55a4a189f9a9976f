package manifest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/test/kit/corpus"
	"github.com/brockdb/brock/internal/version/layout"
)

func snapshotBytes(l *layout.Layout) []byte { return AppendEdit(nil, l.Snapshot()) }

func TestRandomEditsAddUp(t *testing.T) {
	for seed := range uint64(3) {
		h := newHistory(seed)
		l := layout.New()
		for step := range 60 {
			e := h.edit()
			decoded, err := DecodeEdit(AppendEdit(nil, e))
			if err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			before := snapshotBytes(l)
			next, err := l.Apply(decoded)
			if err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			if !bytes.Equal(before, snapshotBytes(l)) {
				t.Fatalf("seed %d, step %d: Apply changed the old layout", seed, step)
			}
			direct, err := l.Apply(e)
			if err != nil || !bytes.Equal(snapshotBytes(direct), snapshotBytes(next)) {
				t.Fatalf("seed %d, step %d: the decoded edit differs from the edit (%v)", seed, step, err)
			}
			l = next
			h.check(t, l)
			again, err := layout.New().Apply(l.Snapshot())
			if err != nil {
				t.Fatalf("seed %d, step %d: snapshot: %v", seed, step, err)
			}
			if !bytes.Equal(snapshotBytes(again), snapshotBytes(l)) {
				t.Fatalf("seed %d, step %d: the snapshot makes another layout:\n%s\nwant\n%s", seed, step, text(again), text(l))
			}
		}
	}
}

func TestUnknownFields(t *testing.T) {
	p := AppendEdit(nil, &layout.Edit{LastVersion: 7})
	p = append(p, encodeTLV(500, 0, "later")...)
	e, err := DecodeEdit(p)
	if err != nil {
		t.Fatal(err)
	}
	e.AddRuns = []layout.Run{{ID: 1, RunMeta: layout.RunMeta{Files: []layout.RunFile{{Num: 2}}}, Unknown: []layout.TLV{{Tag: 77, Value: []byte("run's")}}}}
	e.AddSegments = []layout.Segment{{Num: 1, Kind: filename.Value, Unknown: []layout.TLV{{Tag: 78, Value: []byte("segment's")}}}}
	l, err := layout.New().Apply(e)
	if err != nil {
		t.Fatal(err)
	}
	back, err := DecodeEdit(snapshotBytes(l))
	if err != nil {
		t.Fatal(err)
	}
	if len(back.Unknown) != 1 || back.Unknown[0].Tag != 500 || string(back.Unknown[0].Value) != "later" ||
		string(back.AddRuns[0].Unknown[0].Value) != "run's" || string(back.AddSegments[0].Unknown[0].Value) != "segment's" {
		t.Errorf("unknown fields are lost: %+v", back)
	}
	for name, p := range map[string][]byte{
		"edit": encodeTLV(500, must, ""),
		"run":  encodeTLV(3, must, "\x01\x00\x01"+string(encodeTLV(77, must, ""))),
	} {
		if _, err := DecodeEdit(p); !errors.Is(err, errs.ErrFormat) {
			t.Errorf("required unknown field of the %s: %v", name, err)
		}
	}
}

func encodeTLV(tag, flags uint16, value string) []byte {
	w := wire{writing: true}
	w.writeTLV(tag, flags, func() { w.codeBytes([]byte(value)) })
	return w.p
}

// Whatever an edit has, it can be written. A reader refuses what can't be right.
func TestImpossibleEdits(t *testing.T) {
	for i, e := range []*layout.Edit{
		{LastVersion: entry.MaxVersion + 1},
		{AddSegments: []layout.Segment{{Num: 1, Kind: 'x'}}},
		{States: []layout.SegmentState{{Num: 1, Status: 9}}},
		{AddRuns: []layout.Run{{RunMeta: layout.RunMeta{Expiry: []entry.Expiring{{At: 5}, {At: 5}}}}}},
		{Dead: []layout.Dead{{Segment: 1, Granules: []uint32{7, 7}}}},
	} {
		if _, err := DecodeEdit(AppendEdit(nil, e)); !errors.Is(err, errEdit) {
			t.Errorf("edit %d: %v", i, err)
		}
	}
}

func FuzzEdit(f *testing.F) {
	h := newHistory(1)
	for range 20 {
		corpus.Add(f, AppendEdit(nil, h.edit()))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		e, err := DecodeEdit(p)
		if err != nil {
			return
		}
		again, err := DecodeEdit(AppendEdit(nil, e))
		if err != nil || !bytes.Equal(AppendEdit(nil, again), AppendEdit(nil, e)) {
			t.Fatalf("an edit does not survive its encoding: %v", err)
		}
		l, err := layout.New().Apply(e)
		if err != nil {
			return
		}
		s, err := layout.New().Apply(l.Snapshot())
		if err != nil || text(s) != text(l) {
			t.Fatalf("a layout does not survive its snapshot: %v\n%s\nwant\n%s", err, text(s), text(l))
		}
	})
}
