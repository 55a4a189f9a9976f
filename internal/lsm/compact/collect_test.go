package compact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/segment"
	"github.com/brockdb/brock/vfs"
)

// source is some segments with random records, of which some are dead.
type source struct {
	t       *testing.T
	cfg     segment.Config
	victims []Victim
	entries map[entry.Handle]entry.Entry // live ones, by their old place
	next    entry.FileNum
}

func newSource(t *testing.T, fs vfs.FS, seed uint64) *source {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	s := &source{t: t, cfg: segment.Config{FS: fs, Dir: "/v", UUID: [16]byte{7}}, entries: map[entry.Handle]entry.Entry{}}
	if err := fs.MkdirAll("/v"); err != nil {
		t.Fatal(err)
	}
	edit := &layout.Edit{}
	for range 3 {
		s.next++
		w, err := segment.NewValueWriter(s.cfg, s.next)
		if err != nil {
			t.Fatal(err)
		}
		seg := layout.Segment{Num: s.next, Kind: filename.Value}
		var deaths layout.Deaths
		for i := range 320 {
			e := entry.Entry{Key: fmt.Appendf(nil, "key%05d", rng.IntN(1000)), Value: bytes.Repeat([]byte{byte(i)}, 64+rng.IntN(4000)),
				Version: entry.Version(1000*int(s.next) + i), Kind: entry.Set, Expires: rng.Uint64N(2), Meta: byte(i)}
			h, err := w.Add(&e)
			if err != nil {
				t.Fatal(err)
			}
			seg.Records, seg.Bytes = seg.Records+1, seg.Bytes+h.Length
			if rng.IntN(3) == 0 {
				deaths.Add(h)
			} else {
				s.entries[h] = e
			}
		}
		stats, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		seg.FileBytes = uint64(stats.Size)
		edit.AddSegments, edit.Dead = append(edit.AddSegments, seg), append(edit.Dead, deaths.Lists()...)
	}
	layout, err := layout.New().Apply(edit)
	if err != nil {
		t.Fatal(err)
	}
	for _, seg := range layout.Segments() {
		r, err := segment.Open(s.cfg, seg.Kind, seg.Num, segment.OpenOptions{NoMap: seed%2 == 0})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		s.victims = append(s.victims, Victim{r, seg})
	}
	return s
}

func (s *source) number() entry.FileNum { s.next++; return s.next }

func (s *source) collection() Collection {
	return Collection{Victims: s.victims, Files: s.cfg, NextNum: s.number}
}

func (s *source) files() int {
	s.t.Helper()
	names, err := s.cfg.FS.List("/v")
	if err != nil {
		s.t.Fatal(err)
	}
	return len(names)
}

// Every live record is in the target, in key order, and found through the forwarding table
// of its segment; no dead one is.
func TestCollect(t *testing.T) {
	for seed := range uint64(20) {
		s := newSource(t, vfs.NewMem(), seed)
		c, sequences := s.collection(), 1
		if seed%3 == 0 { // memory for a hundred records
			c.Memory, sequences = 100*(liveBytes+len("key00000")), (len(s.entries)+99)/100
		}
		out, err := Collect(context.Background(), c)
		if err != nil || len(out.Values) != 1 || len(out.Forwardings) != len(s.victims) || out.Extracts != uint64(len(s.entries)) {
			t.Fatalf("seed %d: %+v, %v", seed, out, err)
		}
		target, err := segment.Open(s.cfg, filename.Value, out.Values[0].Num, segment.OpenOptions{End: int64(out.Values[0].FileBytes)})
		if err != nil {
			t.Fatal(err)
		}
		forwardings := map[entry.FileNum]*segment.Forwarding{}
		for _, m := range out.Forwardings {
			r, err := segment.OpenForwarding(s.cfg, m.Map, crypt.FileKeyID{}, true)
			if err != nil || r.Header().Source != m.Num || r.Header().Target != out.Values[0].Num {
				t.Fatalf("seed %d: %+v, %v", seed, r.Header(), err)
			}
			forwardings[m.Num] = r
		}
		var bytesMoved uint64
		for h, e := range s.entries {
			to, ok, _ := forwardings[h.Segment].Lookup(h.Offset)
			if !ok {
				t.Fatalf("seed %d: the record at %d of segment %d did not move", seed, h.Offset, h.Segment)
			}
			got, err := target.Stored(entry.Handle{Segment: out.Values[0].Num, Offset: to, Length: h.Length}, e.Key, e.Version)
			if err != nil || !bytes.Equal(got.Bytes, e.Value) {
				t.Fatalf("seed %d: %v", seed, err)
			}
			bytesMoved += h.Length
		}
		var last []byte
		n := 0
		err = target.Scan(true, func(_ int64, rec *entry.Record) error {
			if bytes.Compare(rec.Key, last) < 0 {
				if sequences--; sequences < 1 {
					t.Errorf("seed %d: %s after %s", seed, rec.Key, last)
				}
			}
			last = bytes.Clone(rec.Key)
			n++
			return nil
		})
		if err != nil || n != len(s.entries) || out.Values[0].Bytes != bytesMoved {
			t.Errorf("seed %d: %d records of %d bytes, want %d of %d: %v", seed, n, out.Values[0].Bytes, len(s.entries), bytesMoved, err)
		}
		if err := target.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Whatever operation fails, or when the context ends, nothing is left behind.
func TestFailedCollectLeavesNothing(t *testing.T) {
	fs := faultfs.New(vfs.NewMem(), faultfs.Options{})
	s := newSource(t, fs, 2)
	before := s.files()
	for nth := 1; ; nth += 1 + nth/10 {
		struck := fs.Struck()
		fs.Inject(faultfs.Fault{Kinds: faultfs.Create | faultfs.Write | faultfs.Sync | faultfs.SyncDir | faultfs.Read, Nth: nth})
		_, err := Collect(context.Background(), s.collection())
		fs.Heal()
		if fs.Struck() == struck {
			if err != nil {
				t.Fatal(err)
			}
			if nth < 15 {
				t.Errorf("only %d operations failed", nth)
			}
			break
		}
		if err == nil || s.files() != before {
			t.Fatalf("operation %d failed: %v, %d files instead of %d", nth, err, s.files(), before)
		}
	}
	s = newSource(t, vfs.NewMem(), 2)
	ctx, cancel := context.WithCancel(context.Background())
	c := s.collection()
	c.Pace = func(ctx context.Context, _ int) error {
		cancel()
		return context.Cause(ctx)
	}
	if _, err := Collect(ctx, c); !errors.Is(err, context.Canceled) || s.files() != before {
		t.Errorf("cancelled: %v, %d files", err, s.files())
	}
}

// A segment whose live records can't be read, or are not as many as the manifest
// knows of, is named and left alone; damage of a dead record does no harm.
func TestCollectRefusesDamage(t *testing.T) {
	mem := vfs.NewMem()
	s := newSource(t, mem, 4)
	flip := func(h entry.Handle) {
		f, err := mem.OpenReadWrite("/v/" + filename.Of(filename.Value, h.Segment))
		if err != nil {
			t.Fatal(err)
		}
		var b [1]byte
		_, rerr := f.ReadAt(b[:], int64(h.Offset)+60)
		b[0] ^= 8
		_, werr := f.WriteAt(b[:], int64(h.Offset)+60)
		if err := errors.Join(rerr, werr, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for g := range s.victims[0].Segment.Dead() {
		off := int64(-1)
		err := s.victims[0].Scan(false, func(o int64, _ *entry.Record) error {
			if o/layout.Granule == int64(g) {
				off = o
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		flip(entry.Handle{Segment: 1, Offset: uint64(off)})
		break
	}
	if _, err := Collect(context.Background(), s.collection()); err != nil {
		t.Fatalf("a dead record is damaged: %v", err)
	}
	files := s.files()
	for h := range s.entries {
		flip(h)
		var d *Damaged
		if _, err := Collect(context.Background(), s.collection()); !errors.As(err, &d) || d.Segment != h.Segment || !errors.Is(err, errs.ErrCorrupt) {
			t.Errorf("a live record of segment %d is damaged: %v", h.Segment, err)
		}
		flip(h)
		break
	}
	other := newSource(t, vfs.NewMem(), 5).victims[1].Segment
	s.victims[1].Segment = other
	var d *Damaged
	if _, err := Collect(context.Background(), s.collection()); !errors.As(err, &d) || d.Segment != other.Num {
		t.Errorf("the manifest knows of other records: %v", err)
	}
	if s.files() != files {
		t.Errorf("%d files, before %d", s.files(), files)
	}
}
