package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// testRing has the keys of the journals in all tests; nil: they are plain.
var testRing *crypt.Ring

// TestMain runs all tests with plain journals, and then with encrypted ones.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		testRing = newRing()
		if code = m.Run(); code != 0 {
			fmt.Println("journals were encrypted")
		}
	}
	os.Exit(code)
}

func newRing() *crypt.Ring {
	r := crypt.NewRing(nil, func(id crypt.ID) (crypt.DataKey, error) {
		return crypt.DataKey{ID: id, Cipher: crypt.AES256GCM, Key: [crypt.KeySize]byte{id[0], 2}}, nil
	})
	if err := r.SetCurrent(crypt.ID{7}); err != nil {
		panic(err)
	}
	return r
}

// encryptedOnly makes the journals of a test encrypted in both runs.
func encryptedOnly(t *testing.T) {
	if testRing == nil {
		testRing = newRing()
		t.Cleanup(func() { testRing = nil })
	}
}

// fork is a history that goes on from where h, which was closed, has come to, on a copy of
// its disk: the same store, numbers and keys.
func (h *history) fork(begin Point) *history {
	f := &history{t: h.t, d: h.d.kill(), owner: owner{num: h.owner.num, limit: h.owner.limit}, groups: slices.Clone(h.groups), durable: h.durable}
	f.open(begin)
	return f
}

// copyFile puts a file of the disk from in the place of that of h with the same name.
func (h *history) copyFile(from *disk, num entry.FileNum) {
	name := "db/" + filename.Of(filename.Journal, num)
	h.d.files[name].data = bytes.Clone(from.files[name].data)
}

// Two copies of a store go on from one state. A segment of one can't stand for that of the
// other: not one that the manifest knows, and not one that another segment follows.
func TestSegmentsOfAFork(t *testing.T) {
	encryptedOnly(t)
	h := newHistory(t, newDisk(), 1<<20)
	h.must(h.append(0, 10, 300))
	h.sync()
	h.must(h.j.Close())
	_, res, err := readBack(h.d, Point{}, nil, false)
	h.must(err)
	a, b := h.fork(res.Begin), h.fork(res.Begin)
	for salt, f := range []*history{a, b} {
		for range 3 { // three segments
			h.must(f.append(uint32(salt), 20, 200))
			f.sync()
			_, err := f.j.Rotate()
			h.must(err)
		}
		h.must(f.j.Close())
	}
	segments := a.j.Segments()
	if len(segments) != 3 {
		t.Fatalf("%d segments", len(segments))
	}
	for _, s := range segments {
		mixed := &history{t: t, d: a.d.kill()}
		mixed.copyFile(b.d, s.File)
		_, err := Replay(ReplayConfig{Config: segment.Config{FS: mixed.d, Dir: "db", UUID: uuid, Ring: testRing}, Known: Known{Durable: known(a.d, s.FirstFrame)}, ReadOnly: true},
			func(entry.Position, []byte, frame.Header) error { return nil })
		if !errors.Is(err, errs.ErrCorrupt) {
			t.Errorf("segment %d is that of the fork, and registered: %v", s.File, err)
		}
		groups, _, err := readBack(mixed.d, Point{}, nil, true)
		if !errors.Is(err, errs.ErrCorrupt) || !slices.Equal(groups, a.groups[:len(groups)]) && s.File != segments[0].File {
			t.Errorf("segment %d is that of the fork: %d groups, %v", s.File, len(groups), err)
		}
	}
}

// A plain segment doesn't count in an encrypted journal, whatever it says.
func TestPlainSegmentInAnEncryptedJournal(t *testing.T) {
	encryptedOnly(t)
	h := newHistory(t, newDisk(), 1<<20)
	h.must(h.append(0, 10, 300))
	h.must(h.j.Close())
	_, res, err := readBack(h.d, Point{}, nil, false)
	h.must(err)
	ring := testRing
	testRing = nil
	f := h.fork(res.Begin)
	h.must(f.append(0, 10, 300))
	h.must(f.j.Close())
	if _, _, err := readBack(f.d, Point{}, nil, true); !errors.Is(err, errs.ErrKey) {
		t.Errorf("an encrypted journal without keys: %v", err)
	}
	testRing = ring
	if groups, res, err := readBack(f.d, Point{}, nil, true); err != nil || !slices.Equal(groups, h.groups) || len(res.Dropped) != 1 {
		t.Errorf("%d groups, %v, dropped %v", len(groups), err, res.Dropped)
	}
	if _, _, err := readBack(f.d, Point{}, []frame.End{{Name: frame.Name{File: 4, Number: 3}}}, true); !errors.Is(err, errs.ErrCorrupt) {
		t.Errorf("a plain segment in the place of a durable one: %v", err)
	}
}

// Frames of one segment in each other's places, with headers that were made to fit.
func TestSwappedFrames(t *testing.T) {
	encryptedOnly(t)
	h := newHistory(t, newDisk(), 1<<20)
	var at []int64 // of frames, all of one length
	for range 4 {
		h.must(h.append(0, 10, 300))
		h.sync()
		at = append(at, h.j.End().Offset)
	}
	size := at[1] - at[0]
	id := segmentID(2)
	for from := range 4 {
		for to := range 4 {
			d := h.d.kill()
			data := d.files["db/"+filename.Of(filename.Journal, 2)].data
			place := at[to] - size
			own, err := frame.Decode(data[place:], id, place)
			h.must(err)
			copy(data[place:at[to]], h.d.files["db/"+filename.Of(filename.Journal, 2)].data[at[from]-size:at[from]])
			own.Put(data[place:], id, place)
			groups, _, err := readBack(d, Point{}, known(h.d, 4), true)
			if from == to {
				h.must(err)
			} else if !errors.Is(err, errs.ErrCorrupt) {
				t.Errorf("frame %d in the place of frame %d: %d groups, %v", from, to, len(groups), err)
			}
		}
	}
}

// A journal goes on under another key, and one that was plain becomes encrypted.
func TestKeyOfAJournalChanges(t *testing.T) {
	encryptedOnly(t)
	ring := testRing
	testRing = nil
	h := newHistory(t, newDisk(), 1<<20)
	h.must(h.append(0, 10, 300))
	begin, err := h.j.Rotate()
	h.must(err)
	plain := len(h.groups)
	testRing = ring
	h.j.c.Ring = ring
	for i := range byte(3) {
		h.must(ring.SetCurrent(crypt.ID{20 + i}))
		h.must(h.append(0, 10, 300, 70_000))
		h.must(h.append(0, 20))
		_, err := h.j.Rotate()
		h.must(err)
	}
	h.must(h.j.Close())
	groups, res, err := readBack(h.d, begin, nil, true)
	if err != nil || !slices.Equal(groups, h.groups[plain:]) {
		t.Fatalf("%d groups, %v", len(groups), err)
	}
	for i, s := range res.Segments {
		if s.KeyID.Key != (crypt.ID{20 + byte(i)}) {
			t.Errorf("segment %d: key %x", s.File, s.KeyID.Key)
		}
	}
	// Another frame before than the one that was there.
	begin.Tag = crypt.Tag{1}
	if groups, _, _ := readBack(h.d, begin, nil, true); len(groups) != 0 {
		t.Errorf("%d groups behind another frame", len(groups))
	}
}

// A copy of a store is taken while its journal grows. The store goes on in its segment, the copy
// in one of its own. In the place of the copy's segment, the store's longer one is read up to the
// frame that the copy's next segment names, also by a follower of the copy: what the store has
// written behind it is none of the copy's.
func TestLongerSegmentOfAFork(t *testing.T) {
	for _, closed := range []bool{false, true} {
		a := newHistory(t, newDisk(), 1<<20)
		a.must(a.append(0, 10, 300))
		a.sync()
		b := &history{t: t, d: a.d.kill(), owner: owner{num: a.owner.num}, groups: slices.Clone(a.groups)}
		_, res, err := readBack(b.d, Point{}, nil, false)
		b.must(err)
		told := []frame.End{res.Begin.End}
		b.owner.register = func(e frame.End) error { told = append(told, e); return nil }
		b.open(res.Begin)
		b.j.registered = res.Begin.Number
		for range 2 {
			b.must(b.append(1, 10, 300))
			b.sync()
		}
		if closed {
			b.must(b.j.Close())
			told[1] = b.j.DurableEnd().End
		}
		if groups, _, err := readBack(b.d, Point{}, told, true); err != nil || !slices.Equal(groups, b.groups) {
			t.Fatalf("%d groups, %v", len(groups), err)
		}
		of := newFollower(a)
		for range 8 {
			a.must(a.append(0, 10, 300))
			a.sync()
		}
		b.copyFile(a.d, 2)
		if err := readKnown(b, Known{Found: told[:1], Durable: told}, len(b.groups)); err != nil {
			t.Errorf("closed %v: %v", closed, err)
		}
		if groups, _, err := readBack(b.d, Point{}, told, true); !errors.Is(err, errs.ErrCorrupt) {
			t.Errorf("closed %v: nothing says where the session has found the end: %d groups, %v", closed, len(groups), err)
		}
		// A segment of the copy, added to the store that it was copied from, takes nothing away.
		added := "db/" + filename.Of(filename.Journal, told[1].File)
		a.d.files[added] = b.d.files[added]
		if groups, _, err := readBack(a.d, Point{}, told[:1], true); !errors.Is(err, errs.ErrCorrupt) {
			t.Errorf("closed %v: with a segment of the copy: %d groups, %v", closed, len(groups), err)
		}
		delete(a.d.files, added)
		a.must(of.f.Follow(Known{Durable: told[:1]}))
		if err := of.f.Follow(Known{Durable: told}); !errors.Is(err, errs.ErrForeign) {
			t.Errorf("closed %v: a follower of the other store: %v", closed, err)
		}
	}
}
