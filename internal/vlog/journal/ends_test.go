package journal

import (
	"errors"
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// readKnown reads the journal of h by a replay and by a follower. Both must find this many groups.
func readKnown(h *history, k Known, want int) error {
	groups := 0
	res, err := Replay(ReplayConfig{Config: segment.Config{FS: h.d, Dir: "db", UUID: uuid, Ring: testRing}, Known: k, ReadOnly: true},
		func(entry.Position, []byte, frame.Header) error { groups++; return nil })
	f := newFollower(h)
	followed := f.f.Follow(k)
	if err == nil && followed == nil && (groups != want || len(f.groups) != want || res.CutBytes != 0) {
		h.t.Errorf("a replay finds %d groups, a follower %d, want %d; %d bytes are cut", groups, len(f.groups), want, res.CutBytes)
	}
	return errors.Join(err, followed)
}

// The disk misread the last frame of a journal once, so a recovery took it for a torn tail and went
// on behind the frame before. Later the frame is whole again. It stays given up, and nothing that
// came after is lost, whatever says where the segment had ended.
func TestFrameThatComesBack(t *testing.T) {
	a := newHistory(t, newDisk(), 1<<20)
	a.must(a.append(0, 10, 300))
	a.sync()
	at := a.j.End().Offset
	a.must(a.append(0, 10, 300))

	b := &history{t: t, d: a.d.kill(), owner: owner{num: a.owner.num}, groups: slices.Clone(a.groups[:1])}
	file := b.d.files["db/000002.log"]
	file.data[at+frame.HeaderSize] ^= 1
	_, res, err := readBack(b.d, Point{}, nil, false)
	b.must(err)
	file.data[at+frame.HeaderSize] ^= 1
	found := []frame.End{res.Begin.End}
	b.must(readKnown(b, Known{Found: found, Durable: found}, 1))

	b.open(res.Begin)
	b.must(b.append(1, 20, 200))
	_, err = b.j.Rotate() // a seal: then a follower shows the frame before it
	b.must(err)
	b.must(readKnown(b, Known{Durable: found}, 2))
}

// A session has recorded where it found the journal to end. What lies behind that in the file is not
// read, and nothing before it may be missing.
func TestWhereASessionFoundTheEnd(t *testing.T) {
	h := newHistory(t, newDisk(), 1<<20)
	h.must(h.append(0, 10, 300))
	h.must(h.append(0, 10, 300))
	found := []frame.End{h.j.point.End}
	k := Known{Found: found, Durable: found}
	file := h.d.files["db/000002.log"]
	file.data = append(file.data[:found[0].Offset], make([]byte, 64<<20)...)
	read := 0
	h.d.onRead = func(n int) { read += n }
	h.must(readKnown(h, k, 2))
	if read > 1<<20 {
		t.Errorf("%d bytes were read of %d", read, found[0].Offset)
	}
	file.data[segment.HeaderSize+frame.HeaderSize] ^= 1
	if err := readKnown(h, k, 2); !errors.Is(err, errs.ErrCorrupt) {
		t.Errorf("with a damaged frame: %v", err)
	}
}
