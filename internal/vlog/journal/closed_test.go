package journal

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// readClosed reads the journal on d, of which a manifest says that it was closed at end.
func readClosed(d *disk, end frame.End, upTo bool) (groups int, res ReplayResult, err error) {
	res, err = Replay(ReplayConfig{Config: segment.Config{FS: d, Dir: "db", UUID: uuid, Ring: testRing}, Known: Known{Durable: []frame.End{end}, Closed: true}, ReadOnly: true, UpTo: upTo},
		func(entry.Position, []byte, frame.Header) error { groups++; return nil })
	return groups, res, err
}

// A journal that was closed ends where its manifest says. A segment that goes on there was never
// written by this store, unless a refused commit has left it without a frame.
func TestSegmentBehindAClosedJournal(t *testing.T) {
	h := newHistory(t, newDisk(), 1<<20)
	h.must(h.append(0, 10, 300))
	h.must(h.j.Close())
	end := h.j.DurableEnd().End
	_, res, err := readBack(h.d, Point{}, nil, false)
	h.must(err)
	f := h.fork(res.Begin)
	for range 2 { // the second segment is the copy's, too
		h.must(f.append(1, 20, 200))
		_, err := f.j.Rotate()
		h.must(err)
	}
	h.must(f.j.Close())
	added := f.j.Segments()[0].File
	if groups, _, err := readClosed(f.d, end, false); !errors.Is(err, errs.ErrCorrupt) {
		t.Errorf("%d groups, %v", groups, err)
	}
	if groups, res, err := readClosed(f.d, end, true); err != nil || groups != 1 || res.Lost == nil || res.Lost.Transactions != 2 || res.Lost.LastVersion != 3 {
		t.Errorf("up to the damage: %d groups, lost %+v, %v", groups, res.Lost, err)
	}
	follow := newFollower(&history{t: t, d: f.d})
	if err := follow.f.Follow(Known{Durable: []frame.End{end}, Closed: true}); err != nil || len(follow.groups) != 1 {
		t.Errorf("a follower shows %d groups, %v", len(follow.groups), err)
	}
	file := f.d.files["db/"+filename.Of(filename.Journal, added)]
	// A manifest that is older than what the journal goes on with finds the same.
	delete(f.d.files, "db/"+filename.Of(filename.Journal, added))
	if groups, _, err := readClosed(f.d, end, false); !errors.Is(err, errs.ErrCorrupt) {
		t.Errorf("without the first segment behind the end: %d groups, %v", groups, err)
	}
	for name := range f.d.files {
		if n, _ := filename.Parse(filepath.Base(name)); n.Number > added {
			delete(f.d.files, name)
		}
	}
	f.d.files["db/"+filename.Of(filename.Journal, added)] = file
	file.data = file.data[:segment.HeaderSize]
	if groups, res, err := readClosed(f.d, end, false); err != nil || groups != 1 || !slices.Contains(res.Dropped, added) {
		t.Errorf("a segment without frames: %d groups, dropped %v, %v", groups, res.Dropped, err)
	}
}

// What lies behind the end of a journal that was closed is not read, be it a frame, garbage or
// zeros; but nothing before the end may be missing.
func TestBehindTheEndOfAClosedJournal(t *testing.T) {
	h := newHistory(t, newDisk(), 1<<20)
	h.must(h.append(0, 10, 300))
	h.must(h.append(0, 10, 300))
	h.sync()
	first, end := known(h.d, 1)[0], h.j.DurableEnd().End
	if groups, _, err := readClosed(h.d, first, false); err != nil || groups != 1 {
		t.Errorf("with a frame behind the end: %d groups, %v", groups, err)
	}
	file := h.d.files["db/"+filename.Of(filename.Journal, 2)]
	file.data = append(file.data[:end.Offset], make([]byte, 64<<20)...)
	file.data[end.Offset+100] = 1
	read := 0
	h.d.onRead = func(n int) { read += n }
	if groups, res, err := readClosed(h.d, end, false); err != nil || groups != 2 || res.CutBytes != 0 {
		t.Errorf("with garbage behind the end: %d groups, cut %d, %v", groups, res.CutBytes, err)
	}
	if read > 1<<20 {
		t.Errorf("%d bytes were read of %d", read, end.Offset)
	}
	file.data = file.data[:end.Offset-8]
	if groups, _, err := readClosed(h.d, end, false); !errors.Is(err, errs.ErrCorrupt) {
		t.Errorf("cut: %d groups, %v", groups, err)
	}
}

// Before a session begins its first segment, the manifest says that the journal goes on. If it
// can't for a while, commits are refused, and no file is made.
func TestJournalGoesOn(t *testing.T) {
	h := newHistory(t, newDisk(), 1<<20)
	told, full := 0, true
	h.owner.goOn = func() error {
		if len(h.d.files) > 0 {
			t.Error("there is a file before the manifest was told")
		}
		if full {
			return errFull
		}
		told++
		return nil
	}
	if err := h.append(0, 10); !errors.Is(err, errs.ErrNoSpace) || errors.Is(err, errs.ErrStopped) {
		t.Errorf("on a full disk: %v", err)
	}
	full = false
	for range 3 {
		h.must(h.append(0, 10))
		_, err := h.j.Rotate()
		h.must(err)
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
	h.owner.goOn = func() error { return errDisk }
	h.open(h.j.point)
	if err := h.append(0, 10); !errors.Is(err, errs.ErrStopped) || !errors.Is(err, errDisk) {
		t.Errorf("after a failure: %v", err)
	}
}
