package manifest

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/dump"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/frame"
)

var (
	rewrite = flag.Bool("rewrite", false, "write golden files anew")
	every   = flag.Bool("every", false, "crash at every call, and in every way, not at some of them")
)

var goldenUUID = [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

// goldenEdit has every field once.
func goldenEdit() *layout.Edit {
	return &layout.Edit{
		AddSegments: []layout.Segment{
			{Num: 3, Kind: filename.Journal, FileBytes: 268435456, Records: 1000, Bytes: 200000000},
			{Num: 6, Kind: filename.Value, FileBytes: 5000, Records: 3, Bytes: 4000, Unknown: []layout.TLV{{Tag: 300, Value: []byte("later")}}},
			{Num: 7, Kind: filename.Value, FileBytes: 100, Stamp: 41},
		},
		DropRuns: []layout.RunID{2},
		AddRuns: []layout.Run{{ID: 4, Order: 10, RunMeta: layout.RunMeta{
			Files: []layout.RunFile{{Num: 4, Size: 4096}}, First: []byte("\x00a"), Last: []byte("\x00z"), Entries: 1, KeyBytes: 2, MinVersion: 41, MaxVersion: 41, Stamp: 41,
		}}, {ID: 5, Tier: layout.Base, Order: 9, RunMeta: layout.RunMeta{
			Files: []layout.RunFile{{Num: 5, Size: 4096, Checksum: 0xdeadbeef}}, First: []byte("\x00apple"), Last: []byte("\x00pear"),
			Entries: 12, Deletes: 2, KeyBytes: 80, ValueBytes: 90, SeparatedBytes: 3000, MinVersion: 4, MaxVersion: 40, MinExpiry: 1800000000000,
			Expiry:       []entry.Expiring{{At: 1800000000000, Late: 90000, Entries: 2, Bytes: 300}, {At: 1800000016384, Late: 500, Entries: 1, Bytes: 20}},
			Superseded:   []layout.Superseded{{Keyspace: 3, Version: 39, Entries: 2, Bytes: 30, Separated: 500}, {Keyspace: 3, Version: 40, Keep: 5, Entries: 1, Bytes: 10}},
			RangeDeletes: 2, Refs: []layout.SegmentRef{{Segment: 3, Records: 10, Bytes: 3000}},
		}, Unknown: []layout.TLV{{Tag: 301, Value: []byte{7}}}}},
		Dead:         []layout.Dead{{Segment: 3, Bytes: 700, Granules: []uint32{64, 65, 1000000}}},
		States:       []layout.SegmentState{{Num: 6, Status: layout.Relocated, Map: 8, Target: 7}},
		DropSegments: []entry.FileNum{1},
		FlushedTo:    3,
		JournalEnds:  []frame.End{{Name: frame.Name{File: 4, Number: 77, Sum: 0xcafe}, Offset: 8192}},
		LastVersion:  41,
		Lasting:      40,
		Floor:        20,
		Clock:        []layout.ClockSample{{Version: 41, UnixMilli: 1700000000123}},
		NextFile:     9,
		SetKeyspaces: []layout.Keyspace{{ID: 3, Name: "users", Options: layout.KeyspaceOptions{ValueThreshold: -1, TTL: time.Hour, Codec: 2, CompressAbove: 1000,
			Versions: 5, Age: time.Second, Manual: true, Unknown: []layout.TLV{{Tag: 303, Value: []byte{9}}}}}},
		DropKeyspaces:  []entry.KeyspaceID{2},
		KeyspaceFloors: []layout.KeyspaceFloor{{ID: 3, Version: 21}},
		NextKeyspace:   5,
		CleanClose:     true,
		Scrub:          layout.Scrub{Began: 1700000000000, Ended: 1690000000000, UpTo: 5, Until: 9},
		Sessions:       []layout.Session{{Number: 12, ID: 0x1d1d1d1d1d1d1d1d, Newest: 39, Lasts: 37, Found: frame.End{Name: frame.Name{File: 3, Number: 70, Sum: 0xbeef}, Offset: 5000}}},
		FeedSegments:   []layout.FeedSegment{{End: frame.End{Name: frame.Name{File: 2, Number: 60, Sum: 0xfeed}, Offset: 7000}, Last: 38}},
		FeedCommits: []layout.FeedCommit{
			{Version: 39, Keyspace: layout.KeyspaceChange{ID: 3, Name: "users"}},
			{Version: 40, Keyspace: layout.KeyspaceChange{ID: 2, Name: "old", Dropped: true}},
			{Version: 41, Run: layout.Run{ID: 4, Order: 10, RunMeta: layout.RunMeta{
				Files: []layout.RunFile{{Num: 4, Size: 4096}}, First: []byte("\x00a"), Last: []byte("\x00z"), Entries: 1, KeyBytes: 2, MinVersion: 41, MaxVersion: 41, Stamp: 41,
			}}, Segments: []layout.Segment{{Num: 7, Kind: filename.Value, FileBytes: 100, Stamp: 41}}},
			{Version: 1042, Skipped: 1000},
		},
		FeedFrom: 30,
		Unknown:  []layout.TLV{{Tag: 302, Value: []byte("kept")}},
	}
}

func TestGolden(t *testing.T) { testGolden(t, "", nil) }

// testGolden compares SUPER and a manifest with what they were, plain or encrypted.
func testGolden(t *testing.T, prefix string, ring *crypt.Ring) {
	super := Super{Major: FormatMajor, Minor: 0, Required: 0, Optional: 1 << 40, UUID: goldenUUID, Seed: 0x1122334455667788,
		Created: 1700000000123, Manifest: 2, Epoch: 4, Durable: 3, Session: 0x5e55, Before: 0x5e54,
		Sum: 0x50c0ffee}
	version := uint16(fileVersion)
	previous := frame.Name{File: 1, Number: 9, Sum: 0xfeed}
	if ring != nil {
		super.Required, version = encrypted, fileEncrypted
		super.Tag, previous.Tag = crypt.Tag{7, 7, 7}, crypt.Tag{8, 8, 8}
	}
	slots, err := super.encodeSlot(storeKey(ring), 0)
	if err != nil {
		t.Fatal(err)
	}
	super.Epoch = 3
	older, err := super.encodeSlot(storeKey(ring), slotSize)
	if err != nil {
		t.Fatal(err)
	}
	slots = append(slots, older...)

	id := manifestIdentity(goldenUUID, 2)
	enc := newEncryption(ring, goldenUUID, 2)
	file := encodeFileHeader(goldenUUID, 2, previous, version)
	at := firstPlace(2, file)
	at.Tag = previous.Tag
	fr, at, _ := encodeFrame(id, enc, at, frame.Snapshot, &layout.Edit{
		AddSegments: []layout.Segment{{Num: 1, Kind: filename.Journal}},
		AddRuns:     []layout.Run{{ID: 2, Order: 1, RunMeta: layout.RunMeta{Files: []layout.RunFile{{Num: 2, Size: 64}}}}},
		NextFile:    3, SetKeyspaces: []layout.Keyspace{{ID: 2, Name: "old"}},
	})
	file = append(file, fr...)
	fr, _, _ = encodeFrame(id, enc, at, frame.Edit, goldenEdit())
	file = append(file, fr...)

	for name, c := range map[string]struct {
		data []byte
		dump func(*dump.Writer, []byte)
	}{prefix + "super.golden": {slots, DumpSuper}, prefix + "manifest.golden": {file, DumpManifest}} {
		var b bytes.Buffer
		d := dump.New(&b, c.data, 0)
		c.dump(d, c.data)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name)
		if *rewrite {
			if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b.Bytes(), want) {
			t.Errorf("%s: the bytes have changed; if they are meant to, the format has a new version:\n%s", path, b.Bytes())
		}
	}

	// The bytes are read back as they were meant.
	both, err := chooseSlot("", slots[:slotSize], slots[slotSize:])
	if err != nil {
		t.Fatal(err)
	}
	super.Epoch = 4
	if err := both.decryptWith(storeKey(ring)); both.Super != super || !both.isSettled() || err != nil {
		t.Errorf("%+v, %v, %v, want %+v", both.Super, both.isSettled(), err, super)
	}
	made := layout.New()
	end, err := scan(bytes.NewReader(file), int64(len(file)), &Super{UUID: goldenUUID, Manifest: 2}, ring, func(_ int64, _ *frame.Header, payload []byte) error {
		e, err := DecodeEdit(payload)
		if err == nil {
			made, err = made.Apply(e)
		}
		return err
	})
	if err != nil || end.Number != 2 || made.Run(5).Refs[0].Records != 10 || !made.Segment(3).IsDead(1000000*layout.Granule) {
		t.Errorf("read back: %v\n%s", err, text(made))
	}
	for n := range len(file) {
		d := dump.New(&bytes.Buffer{}, file[:n], 0)
		DumpManifest(d, file[:n]) // damaged files don't make it panic
		d.Close()
	}
}

// scan walks the frames of a manifest that f holds in size bytes.
func scan(f io.ReaderAt, size int64, super *Super, ring *crypt.Ring, fn func(off int64, h *frame.Header, payload []byte) error) (frame.End, error) {
	r := newReader(f, size, super, ring)
	if err := r.checkHeader(); err != nil {
		return r.first, err
	}
	return r.scanFrames(r.first, fn)
}
