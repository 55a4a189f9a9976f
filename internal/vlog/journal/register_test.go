package journal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// manifest is what a journal tells of its segments.
type manifest struct {
	h    *history
	told []frame.End
	err  error
}

// register checks that what it is told of is durable, name included.
func (m *manifest) register(s frame.End) error {
	if m.err != nil {
		return m.err
	}
	lost := m.h.d.crash(rand.New(rand.NewPCG(1, 1)), 0)
	if _, res, err := readBack(lost, m.h.begin, nil, true); err != nil || res.Begin.Number < s.Number {
		m.h.t.Errorf("told of frame %d, of which a crash leaves %d, %v", s.Number, res.Begin.Number, err)
	}
	m.told = append(m.told, s)
	return nil
}

// Before a Sync returns, the manifest knows a frame of the newest segment that
// has any; it is told once a segment, and of nothing without a Sync.
func TestSyncedSegmentsAreKnown(t *testing.T) {
	h := newHistory(t, newDisk(), 4000)
	m := &manifest{h: h}
	h.owner.register = m.register
	for i := range 200 {
		h.must(h.append(0, 10, 300))
		if i%5 == 0 {
			_, err := h.j.Rotate()
			h.must(err)
		}
		if i%11 == 0 {
			h.must(h.j.SyncSealed()) // alone, it is no promise to anybody
		}
		before := len(m.told)
		if i%3 != 0 {
			continue
		}
		h.sync()
		known := uint64(0)
		for _, s := range m.told {
			known = max(known, s.Number)
		}
		infos := h.j.Segments()
		if first := infos[len(infos)-1].FirstFrame; known < first {
			t.Fatalf("group %d is durable, and nobody knows more than frame %d; the segment begins with %d", i, known, first)
		}
		if len(m.told) > before+1 {
			t.Errorf("%d edits for one sync", len(m.told)-before)
		}
		told := len(m.told)
		h.sync()
		if len(m.told) != told {
			t.Error("told again")
		}
	}
	seen := map[string]bool{}
	for _, s := range m.told {
		if seen[fmt.Sprint(s.File)] {
			t.Errorf("segment %d was told of twice", s.File)
		}
		seen[fmt.Sprint(s.File)] = true
	}
}

// What was flushed needs no word, nor does what Replay found and is known.
func TestFlushedSegmentsAreKnown(t *testing.T) {
	h := newHistory(t, newDisk(), 1<<20)
	h.must(h.append(0, 10))
	h.must(h.append(0, 10))
	d := h.d.kill()
	_, res, err := readBack(d, Point{}, nil, false)
	h.must(err)
	for _, known := range []uint64{0, 1, 2} {
		m := &manifest{h: &history{t: t, d: d}}
		j := New(Config{Config: segment.Config{FS: d, Dir: "db", UUID: uuid, Ring: testRing}, Owner: &owner{num: h.owner.num, register: m.register}, Begin: res.Begin, Registered: known, Found: res.Segments[:1]})
		h.must(j.Sync())
		if want := map[bool]int{true: 1}[known == 0]; len(m.told) != want {
			t.Errorf("frame %d is known: told %v", known, m.told)
		}
	}
	m := &manifest{h: &history{t: t, d: d}}
	j := New(Config{Config: segment.Config{FS: d, Dir: "db", UUID: uuid, Ring: testRing}, Owner: &owner{num: h.owner.num, register: m.register}, Begin: res.Begin, Found: res.Segments[:1]})
	j.Forget(res.Begin.File)
	h.must(j.Sync())
	g, _ := group(2, 0, 10)
	_, err = j.Append(2, []entry.Version{3}, [][]byte{g})
	h.must(err)
	p, err := j.Rotate()
	h.must(err)
	j.Forget(p.File)
	h.must(j.Sync())
	if len(m.told) != 0 {
		t.Errorf("told of %v", m.told)
	}
}

// A full disk that refuses the word stops nothing. The group is taken back, and
// never seen again; or it stays, if nobody takes it back, and the next Sync tells.
func TestRefusedSync(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		h := newHistory(t, newDisk(), int64(3000+rnd.IntN(5000)))
		m := &manifest{h: h}
		h.owner.register = m.register
		retracted := 0
		for i := range 40 {
			h.must(h.append(uint32(i), rnd.IntN(300), 10+rnd.IntN(600)))
			if rnd.IntN(8) == 0 {
				_, err := h.j.Rotate()
				h.must(err)
				continue
			}
			m.err = nil
			if rnd.IntN(3) != 0 {
				m.err = errFull
			}
			switch err := h.j.Sync(); {
			case err == nil:
				h.durable = len(h.groups)
			case errors.Is(err, errs.ErrStopped) || !errors.Is(err, errs.ErrNoSpace):
				t.Fatal(err)
			case rnd.IntN(4) != 0:
				h.must(h.j.Retract())
				h.groups = h.groups[:len(h.groups)-1]
				retracted++
				if _, n := h.check(h.d.kill(), "taken back"); n != len(h.groups) {
					t.Fatalf("seed %d: %d groups, want %d", seed, n, len(h.groups))
				}
			}
			h.check(h.d.crash(rnd, rnd.Float64()), fmt.Sprintf("seed %d, group %d", seed, i))
		}
		m.err = nil
		h.sync()
		if h.owner.full < retracted {
			t.Errorf("%d refused, told of %d", retracted, h.owner.full)
		}
		if _, n := h.check(h.d.crash(rnd, 0), "synced"); n != len(h.groups) {
			t.Errorf("seed %d: %d groups of %d", seed, n, len(h.groups))
		}
		h.must(h.j.Close())
		h.check(h.d.kill(), "closed")
	}
}

// Any other failure to tell stops the journal, and so does one to take back.
func TestFailedRegisterStops(t *testing.T) {
	for _, cause := range []error{errDisk, errors.Join(errs.ErrStopped, errFull)} {
		h := newHistory(t, newDisk(), 1<<20)
		m := &manifest{h: h, err: cause}
		h.owner.register = m.register
		h.must(h.append(0, 10))
		for _, err := range []error{h.j.Sync(), h.j.Retract(), h.append(0, 1), h.j.Close()} {
			if !errors.Is(err, errs.ErrStopped) {
				t.Errorf("%v: %v", cause, err)
			}
		}
	}
	h := newHistory(t, newDisk(), 1<<20)
	m := &manifest{h: h, err: errFull}
	h.owner.register = m.register
	h.must(h.append(0, 10))
	if err := h.j.Sync(); !errors.Is(err, errs.ErrNoSpace) {
		t.Error(err)
	}
	h.d.fail = func(op, _ string) error { return map[string]error{"sync": errDisk}[op] }
	for _, err := range []error{h.j.Retract(), h.append(0, 1)} {
		if !errors.Is(err, errs.ErrStopped) || !errors.Is(err, errDisk) {
			t.Error(err)
		}
	}
}
