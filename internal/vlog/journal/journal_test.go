package journal

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/internal/vlog/segment"
)

var uuid = [16]byte{1, 2, 3}

// history is a journal on a disk together with what was appended to it.
type history struct {
	t       testing.TB
	d       *disk
	j       *Journal
	owner   owner
	begin   Point
	groups  []string // what each group holds, in order
	durable int      // groups known durable
}

// owner is a journal's Owner. It gives out even numbers.
type owner struct {
	num      entry.FileNum // the last one
	limit    int64         // length of segments; 0 = 256 MiB
	register func(frame.End) error
	goOn     func() error
	full     int // times that the disk was full
}

func (o *owner) NextNum() entry.FileNum { o.num += 2; return o.num }

func (o *owner) SegmentLimit() int64 { return cmp.Or(o.limit, 256<<20) }

func (o *owner) Register(s frame.End) error {
	if o.register == nil {
		return nil
	}
	return o.register(s)
}

func (o *owner) GoOn() error {
	if o.goOn == nil {
		return nil
	}
	return o.goOn()
}

func (o *owner) DiskFull() { o.full++ }

func newHistory(t testing.TB, d *disk, segmentBytes int64) *history {
	h := &history{t: t, d: d, owner: owner{limit: segmentBytes}}
	h.open(Point{})
	return h
}

func (h *history) open(p Point) {
	h.j = New(Config{Config: segment.Config{FS: h.d, Dir: "db", UUID: uuid, Ring: testRing}, Begin: p, Owner: &h.owner})
}

// group makes group i: its content differs from that of every other, and from
// what a copy of the journal wrote as group i.
func group(i int, salt uint32, sizes ...int) (payload []byte, text string) {
	var b strings.Builder
	for k, n := range sizes {
		e := entry.Entry{Key: fmt.Appendf(nil, "\x00k%d.%d.%d", i, k, salt), Value: bytes.Repeat([]byte{byte(i)}, n), Kind: entry.Set}
		payload = entry.AppendRecord(payload, &e, n > 100)
		fmt.Fprintf(&b, "%q %d@%d;", e.Key, n, i+1)
	}
	return entry.PadRecords(payload), b.String()
}

func (h *history) append(salt uint32, sizes ...int) error {
	payload, text := group(len(h.groups), salt, sizes...)
	_, err := h.j.Append(entry.Version(len(h.groups)), []entry.Version{entry.Version(len(h.groups) + 1)}, [][]byte{payload})
	if err == nil {
		h.groups = append(h.groups, text)
	}
	return err
}

func (h *history) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *history) sync() {
	h.t.Helper()
	h.must(h.j.Sync())
	h.durable = len(h.groups)
}

// readBack reads the groups that d has behind begin.
func readBack(d *disk, begin Point, durable []frame.End, readOnly bool) ([]string, ReplayResult, error) {
	var groups []string
	res, err := Replay(ReplayConfig{Config: segment.Config{FS: d, Dir: "db", UUID: uuid, Ring: testRing}, Known: Known{Begin: begin, Durable: durable}, ReadOnly: readOnly},
		func(pos entry.Position, payload []byte, h frame.Header) error {
			var text strings.Builder
			var r entry.Record
			for records := h.Walk(payload, pos.Offset); records.More(); {
				at := records.At()
				if err := records.Next(&r); err != nil {
					return err
				}
				if !pos.Encrypted && r.Own && !r.VerifyHead(payload[at-pos.Offset:], segmentID(pos.Segment), at) {
					return fmt.Errorf("record at %d of segment %d is not where its checksum says", at, pos.Segment)
				}
				fmt.Fprintf(&text, "%q %d@%d;", r.Key, r.ValueSize, r.Version)
			}
			groups = append(groups, text.String())
			return nil
		})
	return groups, res, err
}

// known is what a manifest says that knows the frame number n of the journal on d; nil if n is 0.
func known(d *disk, n uint64) []frame.End {
	names, _ := d.List("db")
	for _, base := range slices.Backward(names) {
		name, _ := filename.Parse(base)
		c := segment.Config{FS: d, Dir: "db", UUID: uuid, Ring: testRing}
		h, err := segment.ReadHeader(c, filename.Journal, name.Number)
		if err != nil || n < h.FirstFrame() {
			continue
		}
		r, err := segment.Open(c, filename.Journal, name.Number, segment.OpenOptions{NoMap: true, KeyID: h.KeyID})
		if err != nil {
			return nil
		}
		frames := r.Frames(false)
		for frames.At().Number < n {
			if _, err := frames.Next(); err != nil {
				panic(fmt.Sprintf("frame %d is not on the disk: %v", n, err))
			}
		}
		return []frame.End{frames.At().End}
	}
	return nil
}

func TestNothingIsCreatedBeforeTheFirstAppend(t *testing.T) {
	h := newHistory(t, newDisk(), 0)
	h.sync()
	if _, err := h.j.Rotate(); err != nil {
		t.Fatal(err)
	}
	h.must(h.j.Close())
	if len(h.d.files) != 0 {
		t.Errorf("%d files", len(h.d.files))
	}
	if groups, res, err := readBack(h.d, Point{}, nil, false); err != nil || len(groups) != 0 || res.Begin.Number != 0 {
		t.Errorf("%v, %+v, %v", groups, res, err)
	}
}

func TestReplayAfterClose(t *testing.T) {
	h := newHistory(t, newDisk(), 20_000)
	for i := range 100 {
		h.must(h.append(0, 10, 200, 30*i))
		if i%7 == 0 {
			h.sync()
		}
	}
	h.must(h.append(0, 100_000)) // longer than a segment
	h.must(h.append(0, 5))
	infos, end := h.j.Segments(), h.j.End()
	h.must(h.j.Close())
	h.must(h.j.Close())
	if err := h.append(0, 1); !errors.Is(err, errs.ErrClosed) {
		t.Errorf("append after close: %v", err)
	}
	groups, res, err := readBack(h.d, Point{}, known(h.d, end.Frame+1), true)
	if err != nil || !slices.Equal(groups, h.groups) {
		t.Fatalf("%d groups of %d, %v", len(groups), len(h.groups), err)
	}
	last := len(infos) - 1
	infos[last].End, infos[last].Sealed = h.j.point.End, true
	if !slices.Equal(res.Segments, infos) || len(infos) < 10 {
		t.Errorf("segments\n%+v, want\n%+v", res.Segments, infos)
	}
	if res.CutBytes != 0 || res.CutFrames != 0 || len(res.Dropped) != 0 {
		t.Errorf("cut %+v", res)
	}
	for _, info := range infos {
		if f := h.d.files[filepath.Join("db", filename.Of(filename.Journal, info.File))]; int64(len(f.synced)) != info.Offset {
			t.Errorf("segment %d: %d bytes durable, want %d", info.File, len(f.synced), info.Offset)
		}
	}
}

func TestReplayFromAPoint(t *testing.T) {
	h := newHistory(t, newDisk(), 1<<20)
	var points []Point
	var starts []int
	for range 4 {
		starts = append(starts, len(h.groups))
		points = append(points, h.j.point)
		for range 5 {
			h.must(h.append(0, 10, 300))
		}
		p, err := h.j.Rotate()
		h.must(err)
		if p != h.j.point {
			t.Errorf("point %+v", p)
		}
	}
	h.must(h.j.Close())
	for i, p := range points {
		groups, _, err := readBack(h.d, p, nil, true)
		if err != nil || !slices.Equal(groups, h.groups[starts[i]:]) {
			t.Errorf("from %+v: %d groups, %v", p, len(groups), err)
		}
	}
}

func TestMissingSegments(t *testing.T) {
	h := newHistory(t, newDisk(), 1<<20)
	for range 4 {
		h.must(h.append(0, 10, 300))
		h.sync()
		_, err := h.j.Rotate()
		h.must(err)
	}
	var all []frame.End
	for _, s := range h.j.Segments() {
		all = append(all, s.End)
	}
	h.must(h.j.Close())
	for num := entry.FileNum(2); num <= 8; num += 2 {
		d := h.d.kill()
		delete(d.files, "db/"+filename.Of(filename.Journal, num))
		for _, known := range [][]frame.End{all[3:], all} {
			_, err := Replay(ReplayConfig{Config: segment.Config{FS: d, Dir: "db", UUID: uuid, Ring: testRing}, Known: Known{Durable: known}, ReadOnly: true},
				func(entry.Position, []byte, frame.Header) error { return nil })
			var damage *errs.Corruption
			if !errors.As(err, &damage) || damage.File != filename.Of(filename.Journal, num) {
				t.Errorf("without segment %d, with %d known: %v", num, known, err)
			}
		}
	}
}

func TestForeignSegment(t *testing.T) {
	d := newDisk()
	other := New(Config{Config: segment.Config{FS: d, Dir: "db", UUID: [16]byte{9}}, Owner: &owner{num: 7}})
	g, _ := group(0, 0, 5)
	if _, err := other.Append(0, []entry.Version{1}, [][]byte{g}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readBack(d, Point{}, nil, false); !errors.Is(err, errs.ErrForeign) {
		t.Errorf("got %v", err)
	}
}

func TestStopsAfterAFailure(t *testing.T) {
	for _, op := range []string{"write", "sync", "syncdir", "create"} {
		for n := range 12 {
			h := newHistory(t, newDisk(), 3000)
			count := 0
			h.d.fail = func(got, _ string) error {
				if got != op {
					return nil
				}
				if count++; count == n+1 {
					return errDisk
				}
				return nil
			}
			var failed error
			for i := 0; i < 20 && failed == nil; i++ {
				if failed = h.append(0, 10, 400); failed == nil {
					if failed = h.j.Sync(); failed == nil {
						h.durable = len(h.groups)
					}
				}
			}
			if failed == nil {
				continue // no such call was made
			}
			if !errors.Is(failed, errs.ErrStopped) || !errors.Is(failed, errDisk) {
				t.Errorf("%s %d: %v", op, n, failed)
			}
			syncs := h.d.syncs
			for _, err := range []error{h.append(0, 1), h.j.Sync(), h.j.SyncSealed(), h.j.Err(), h.j.Close()} {
				if !errors.Is(err, errs.ErrStopped) || !errors.Is(err, errDisk) {
					t.Errorf("%s %d: then %v", op, n, err)
				}
			}
			if h.d.syncs != syncs {
				t.Errorf("%s %d: synced again after a failure", op, n)
			}
			for seed := range uint64(8) {
				h.check(h.d.crash(rand.New(rand.NewPCG(seed, 1)), float64(seed)/7), fmt.Sprintf("%s %d, seed %d", op, n, seed))
			}
		}
	}
}

// check replays d and demands a prefix of the groups that has all durable ones.
func (h *history) check(d *disk, what string) (ReplayResult, int) {
	h.t.Helper()
	groups, res, err := readBack(d, h.begin, nil, false)
	if err != nil {
		h.t.Errorf("%s: %v", what, err)
		return res, 0
	}
	if len(groups) < h.durable || len(groups) > len(h.groups) || !slices.Equal(groups, h.groups[:len(groups)]) {
		h.t.Fatalf("%s: %d groups came back, %d were written, %d were durable", what, len(groups), len(h.groups), h.durable)
	}
	return res, len(groups)
}

// After any sequence of crashes and kills the journal is a prefix of what was
// written, with everything that was durable.
func TestCrashes(t *testing.T) {
	seed := draw.Seed(t)
	for round := range uint64(30) { // twice: plain and encrypted
		rnd := rand.New(rand.NewPCG(seed, round))
		what := func() string { return fmt.Sprintf("seed %d, round %d", seed, round) }
		h := newHistory(t, newDisk(), int64(5000+rnd.IntN(60_000)))
		for life := range 6 {
			for range rnd.IntN(30) {
				sizes := make([]int, 1+rnd.IntN(4))
				for i := range sizes {
					sizes[i] = rnd.IntN(2000)
				}
				h.must(h.append(uint32(life), sizes...))
				switch rnd.IntN(11) {
				case 4, 5:
					h.full(rnd, uint32(1000+life))
				case 0, 1:
					h.sync()
				case 2:
					_, err := h.j.Rotate()
					h.must(err)
				case 3:
					h.must(h.j.SyncSealed())
					h.durable = max(h.durable, h.framesToGroups())
				}
				if rnd.IntN(10) == 0 {
					h.check(h.d.crash(rnd, rnd.Float64()), what())
				}
			}
			if rnd.IntN(3) == 0 {
				h.d = h.d.kill()
				_, n := h.check(h.d.kill(), what())
				if n != len(h.groups) {
					t.Fatalf("%s: killed: %d groups of %d", what(), n, len(h.groups))
				}
			} else {
				h.d = h.d.crash(rnd, rnd.Float64())
			}
			res, n := h.check(h.d, what())
			h.groups, h.durable = h.groups[:n], n
			for _, num := range res.Dropped {
				if rnd.IntN(2) == 0 {
					delete(h.d.files, "db/"+filename.Of(filename.Journal, num))
				}
			}
			h.open(res.Begin)
		}
	}
}

// framesToGroups is the number of groups in segments that are sealed and synced.
func (h *history) framesToGroups() int {
	n := 0
	for _, s := range h.j.Segments() {
		if !s.Sealed {
			n += int(s.Number + 1 - s.FirstFrame) // it has a frame
		}
	}
	return len(h.groups) - n
}

// Whatever is flipped, cut or zeroed: what comes back is a prefix with all that
// a later frame or another file says to be durable, or a typed corruption.
func TestDamage(t *testing.T) {
	seed := draw.Seed(t)
	for round := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, round))
		h := newHistory(t, newDisk(), int64(4000+rnd.IntN(20_000)))
		var durable []int // how many groups each one proves durable
		for range 10 + rnd.IntN(20) {
			durable = append(durable, h.durable)
			h.must(h.append(0, rnd.IntN(60), rnd.IntN(1500)))
			if rnd.IntN(2) == 0 {
				h.sync()
			}
		}
		var durableEnd []frame.End // what the manifest would know to be durable
		if rnd.IntN(2) == 0 {
			h.sync()
			durableEnd = known(h.d, h.j.End().Durable)
		}
		for image := range 60 {
			d := h.d.kill()
			what := damage(d, rnd)
			proven := 0
			if strings.HasPrefix(what, "flip") { // in the last group at worst
				proven = durable[len(durable)-2]
			}
			what = fmt.Sprintf("seed %d, round %d, image %d: %s", seed, round, image, what)
			groups, _, err := readBack(d, Point{}, durableEnd, image%2 == 0)
			if err != nil {
				if !errors.Is(err, errs.ErrCorrupt) && !errors.Is(err, errs.ErrForeign) && !errors.Is(err, errs.ErrFormat) {
					t.Errorf("%s: untyped error %v", what, err)
				}
				continue
			}
			if len(groups) > len(h.groups) || !slices.Equal(groups, h.groups[:len(groups)]) {
				t.Fatalf("%s: %d groups came back that are no prefix", what, len(groups))
			}
			if len(groups) < proven {
				t.Errorf("%s: %d groups, %d had been durable", what, len(groups), proven)
			}
			if durableEnd != nil && len(groups) != len(h.groups) {
				t.Errorf("%s: %d of %d groups, all known durable", what, len(groups), len(h.groups))
			}
		}
	}
}

// damage changes one file of d in one way and says what it did.
func damage(d *disk, rnd *rand.Rand) string {
	names, _ := d.List("db")
	name := names[rnd.IntN(len(names))]
	f := d.files["db/"+name]
	at := rnd.IntN(len(f.data))
	switch rnd.IntN(5) {
	case 0:
		f.data[at] ^= 1 << rnd.IntN(8)
		return fmt.Sprintf("flip at %d of %s", at, name)
	case 1:
		f.data = f.data[:at]
		return fmt.Sprintf("%s cut to %d", name, at)
	case 2:
		clear(f.data[at:min(len(f.data), at+512)])
		return fmt.Sprintf("zeros at %d of %s", at, name)
	case 3:
		other := d.files["db/"+names[rnd.IntN(len(names))]]
		copy(f.data[at:], other.data[min(at, len(other.data)):min(len(other.data), at+4096)])
		return fmt.Sprintf("misdirected write at %d of %s", at, name)
	default:
		f.data = append(f.data, f.data[at:]...)
		return fmt.Sprintf("garbage behind %s", name)
	}
}

// A single damaged bit before a later synced frame is always an error.
func TestDamageBeforeADurableFrame(t *testing.T) {
	h := newHistory(t, newDisk(), 1<<20)
	for range 6 {
		h.must(h.append(0, 40, 300))
		h.sync()
	}
	name := "db/" + filename.Of(filename.Journal, 2)
	last := int(h.j.End().Offset) - 600
	for at := 0; at < last; at += 2 + at%5 {
		d := h.d.kill()
		d.files[name].data[at] ^= 0x20
		if groups, _, err := readBack(d, Point{}, nil, true); !errors.Is(err, errs.ErrCorrupt) && !errors.Is(err, errs.ErrForeign) {
			t.Fatalf("flip at %d: %d groups, %v", at, len(groups), err)
		}
	}
}

func TestReadOnlyReplayWritesNothing(t *testing.T) {
	h := newHistory(t, newDisk(), 1<<20)
	h.must(h.append(0, 40, 300))
	syncs := h.d.syncs
	h.d.fail = func(op, name string) error {
		if op != "read" {
			t.Errorf("%s of %s", op, name)
		}
		return nil
	}
	if groups, _, err := readBack(h.d, Point{}, nil, true); err != nil || len(groups) != 1 || h.d.syncs != syncs {
		t.Errorf("%d groups, %v", len(groups), err)
	}
}

func TestReadErrorIsNoTornTail(t *testing.T) {
	h := newHistory(t, newDisk(), 1<<20)
	for range 3 {
		h.must(h.append(0, 40, 300))
	}
	for n := range 5 {
		count := 0
		h.d.fail = func(op, _ string) error {
			if op != "read" {
				return nil
			}
			if count++; count == n+1 {
				return errDisk
			}
			return nil
		}
		if groups, _, err := readBack(h.d, Point{}, nil, true); count > n && !errors.Is(err, errDisk) {
			t.Errorf("read %d fails: %d groups, %v", n, len(groups), err)
		}
	}
}

func TestInvalidGroups(t *testing.T) {
	h := newHistory(t, newDisk(), 1<<20)
	h.must(h.append(0, 5))
	for _, g := range [][][]byte{
		make([][]byte, 1<<16),
		{{1, 2, 3}},
		{make([]byte, 40), make([]byte, 24)},
	} {
		if _, err := h.j.Append(0, ascending(len(g)), g); !errors.Is(err, errs.ErrInvalid) || errors.Is(err, errs.ErrStopped) {
			t.Errorf("%d transactions: %v", len(g), err)
		}
	}
	h.must(h.append(0, 6))
	h.must(h.j.Close())
	h.check(h.d, "after refused groups")
}

func TestOpenReader(t *testing.T) {
	h := newHistory(t, newDisk(), 4000)
	type at struct {
		pos entry.Position
		i   int
	}
	var all []at
	for i := range 20 {
		g, _ := group(i, 0, 700)
		pos, err := h.j.Append(entry.Version(i), []entry.Version{entry.Version(i + 1)}, [][]byte{g})
		h.must(err)
		all = append(all, at{pos, i})
		if i == 8 {
			h.must(h.j.SyncSealed())
		}
	}
	for _, a := range all {
		r, err := h.j.OpenReader(a.pos.Segment)
		h.must(err)
		v, err := r.Stored(entry.Handle{Segment: a.pos.Segment, Offset: uint64(a.pos.Offset), Length: 700}, fmt.Appendf(nil, "\x00k%d.0.0", a.i), entry.Version(a.i+1))
		if err != nil || len(v.Bytes) != 700 || v.Bytes[0] != byte(a.i) {
			t.Errorf("group %d: %d bytes, %v", a.i, len(v.Bytes), err)
		}
		h.must(r.Close())
	}
	if _, err := h.j.OpenReader(999); !errors.Is(err, errs.ErrInvalid) {
		t.Errorf("unknown segment: %v", err)
	}
	last := all[10].pos.Segment
	h.j.Forget(last)
	if infos := h.j.Segments(); infos[0].File <= last {
		t.Errorf("not forgotten: %+v", infos)
	}
}

// The leader appends and syncs while sealed segments are synced in the
// background and others read.
func TestConcurrentUse(t *testing.T) {
	h := newHistory(t, newDisk(), 6000)
	stop := make(chan struct{})
	var others sync.WaitGroup
	for _, f := range []func() error{
		func() error { return h.j.SyncSealed() },
		func() error { _, _, err := readBack(h.d.kill(), Point{}, nil, true); return err },
		func() error {
			if e := h.j.End(); e.Durable > e.Frame {
				return fmt.Errorf("end %+v", e)
			}
			for _, s := range h.j.Segments() {
				r, err := h.j.OpenReader(s.File)
				if err != nil {
					return err
				}
				if err := r.Scan(true, func(int64, *entry.Record) error { return nil }); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if err := f(); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for i := range 300 {
		h.must(h.append(0, 50, 500))
		if i%10 == 0 {
			h.sync()
		}
	}
	close(stop)
	others.Wait()
	h.must(h.j.Close())
	h.durable = len(h.groups)
	h.check(h.d.crash(rand.New(rand.NewPCG(1, 1)), 0), "after close")
}

// ascending returns the versions 1 to n.
func ascending(n int) (versions []entry.Version) {
	for i := range n {
		versions = append(versions, entry.Version(i+1))
	}
	return versions
}
