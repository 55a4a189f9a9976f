package manifest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/version/meta"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// The tables follow docs/format.md, "MANIFEST". Their order is the one in which
// fields are written; tags alone say what a field is.

var editFields = fields[layout.Edit]{
	listField(1, must, "addSegment", func(e *layout.Edit) *[]layout.Segment { return &e.AddSegments }, putSegment, getSegment),
	listField(2, must, "dropRun", func(e *layout.Edit) *[]layout.RunID { return &e.DropRuns }, putNumber, getNumber),
	listField(3, must, "addRun", func(e *layout.Edit) *[]layout.Run { return &e.AddRuns }, putRun, getRun).shown(showRun),
	listField(4, must, "dead", func(e *layout.Edit) *[]layout.Dead { return &e.Dead }, putDead, getDead),
	listField(5, must, "segmentState", func(e *layout.Edit) *[]layout.SegmentState { return &e.States }, putState, getState),
	listField(6, must, "dropSegment", func(e *layout.Edit) *[]entry.FileNum { return &e.DropSegments }, putNumber, getNumber),
	valueField(7, must, "flushedTo", func(e *layout.Edit) *entry.FileNum { return &e.FlushedTo }, putNumber, getNumber),
	listField(8, must, "journalEnd", func(e *layout.Edit) *[]frame.End { return &e.JournalEnds }, putJournalEnd, getJournalEnd),
	valueField(9, must, "lastVersion", func(e *layout.Edit) *entry.Version { return &e.LastVersion }, putNumber, (*wire).version),
	valueField(10, must, "floor", func(e *layout.Edit) *entry.Version { return &e.Floor }, putNumber, (*wire).version),
	listField(11, may, "clock", func(e *layout.Edit) *[]layout.ClockSample { return &e.Clock }, putClock, getClock),
	valueField(12, must, "nextFile", func(e *layout.Edit) *entry.FileNum { return &e.NextFile }, putNumber, getNumber),
	listField(13, must, "setKeyspace", func(e *layout.Edit) *[]layout.Keyspace { return &e.SetKeyspaces }, putKeyspace, getKeyspace),
	listField(14, must, "dropKeyspace", func(e *layout.Edit) *[]entry.KeyspaceID { return &e.DropKeyspaces }, putNumber, getNumber32),
	listField(16, must, "keyspaceFloor", func(e *layout.Edit) *[]layout.KeyspaceFloor { return &e.KeyspaceFloors }, putFloor, getFloor),
	valueField(17, must, "nextKeyspace", func(e *layout.Edit) *uint64 { return &e.NextKeyspace }, putNumber, getNumber),
	valueField(18, may, "scrub", func(e *layout.Edit) *layout.Scrub { return &e.Scrub },
		func(b []byte, s layout.Scrub) []byte {
			return putNumbers(putSigned(putSigned(b, s.Began), s.Ended), uint64(s.UpTo), uint64(s.Until))
		},
		func(w *wire) layout.Scrub {
			return layout.Scrub{Began: w.varint(), Ended: w.varint(), UpTo: entry.FileNum(w.uvarint()), Until: entry.FileNum(w.uvarint())}
		}),
	valueField(19, must, "dataKey", func(e *layout.Edit) *layout.DataKey { return &e.DataKey }, putDataKey, getDataKey),
	listField(20, may, "session", func(e *layout.Edit) *[]layout.Session { return &e.Sessions }, putSession, getSession),
	valueField(15, may, "cleanClose", func(e *layout.Edit) *bool { return &e.CleanClose },
		func(b []byte, _ bool) []byte { return b }, func(*wire) bool { return true }),
}

var runFields = fields[layout.Run]{
	parts(1, must, "files", always, putFiles, getFiles),
	parts(2, must, "bounds", always,
		func(b []byte, r *layout.Run) []byte { return putBytes(putBytes(b, r.First), r.Last) },
		func(w *wire, r *layout.Run) { r.First, r.Last = w.readBytes(), w.readBytes() }),
	parts(3, must, "counts", always, putCounts, getCounts),
	parts(4, must, "refs", func(r *layout.Run) bool { return len(r.Refs) > 0 }, putRefs, getRefs),
	valueField(5, must, "tombstones", func(r *layout.Run) *uint64 { return &r.Tombstones }, putNumber, getNumber),
	valueField(8, must, "stamp", func(r *layout.Run) *entry.Version { return &r.Stamp }, putNumber, (*wire).version),
	parts(9, may, "expiry", func(r *layout.Run) bool { return len(r.Expiry) > 0 }, putExpiry, getExpiry),
	parts(10, may, "superseded", func(r *layout.Run) bool { return r.Superseded != nil }, putSuperseded, getSuperseded),
}

var segmentFields = fields[layout.Segment]{
	valueField(9, must, "life", func(s *layout.Segment) *crypt.Life { return &s.Life }, appendLife, getLife),
	valueField(8, must, "stamp", func(s *layout.Segment) *entry.Version { return &s.Stamp }, putNumber, (*wire).version),
}

var keyspaceFields = fields[layout.KeyspaceOptions]{
	valueField(1, may, "threshold", func(o *layout.KeyspaceOptions) *int64 { return &o.ValueThreshold }, putSigned, getSigned),
	valueField(2, must, "ttl", func(o *layout.KeyspaceOptions) *time.Duration { return &o.TTL }, putSigned, getSigned),
	valueField(3, must, "versions", func(o *layout.KeyspaceOptions) *int64 { return &o.Versions }, putSigned, getSigned),
	valueField(4, must, "age", func(o *layout.KeyspaceOptions) *time.Duration { return &o.Age }, putSigned, getSigned),
	valueField(5, may, "codec", func(o *layout.KeyspaceOptions) *int64 { return &o.Codec }, putSigned, getSigned),
	valueField(6, may, "compress above", func(o *layout.KeyspaceOptions) *int64 { return &o.CompressAbove }, putSigned, getSigned),
}

func always(*layout.Run) bool { return true }

// AppendEdit appends the encoding of e to dst.
func AppendEdit(dst []byte, e *layout.Edit) []byte { return editFields.appendFields(dst, e, e.Unknown) }

// DecodeEdit decodes a whole edit; src may be overwritten afterwards. It returns
// errs.ErrFormat for a field of a later release that must be understood.
func DecodeEdit(src []byte) (*layout.Edit, error) {
	e := new(layout.Edit)
	w := wire{p: src}
	editFields.readFields(&w, e, &e.Unknown)
	if w.err != nil {
		return nil, w.err
	}
	return e, nil
}

func putSegment(b []byte, s layout.Segment) []byte {
	b = append(putNumber(b, s.Num), byte(s.Kind))
	b = putNumbers(b, s.FileBytes, s.Records, s.Bytes)
	return segmentFields.appendFields(b, &s, s.Unknown)
}

func getSegment(w *wire) layout.Segment {
	// The calls run from left to right, in the order of the bytes.
	s := layout.Segment{Num: entry.FileNum(w.uvarint()), Kind: filename.Kind(w.byte())}
	if s.Kind != filename.Journal && s.Kind != filename.Value {
		w.fail("segment of %v", s.Kind)
	}
	s.FileBytes, s.Records, s.Bytes = w.uvarint(), w.uvarint(), w.uvarint()
	segmentFields.readFields(w, &s, &s.Unknown)
	return s
}

func putState(b []byte, s layout.SegmentState) []byte {
	b = putNumbers(b, uint64(s.Num), uint64(s.Status), uint64(s.Map), uint64(s.Target))
	if s.Life.IsZero() {
		return b
	}
	return appendLife(b, s.Life)
}

func getState(w *wire) layout.SegmentState {
	s := layout.SegmentState{Num: entry.FileNum(w.uvarint())}
	status := w.uvarint()
	if status > uint64(layout.Relocated) {
		w.fail("segment state %d", status)
	}
	s.Status = layout.SegmentStatus(status)
	s.Map, s.Target = entry.FileNum(w.uvarint()), entry.FileNum(w.uvarint())
	if len(w.p) > 0 {
		s.Life = getLife(w)
	}
	return s
}

func putJournalEnd(b []byte, j frame.End) []byte {
	b = putNumbers(b, uint64(j.File), uint64(j.Offset), j.Number, uint64(j.Sum))
	if j.Life.IsZero() {
		return b
	}
	return append(appendLife(b, j.Life), j.Tag[:]...)
}

func getJournalEnd(w *wire) (j frame.End) {
	j.File, j.Offset, j.Number, j.Sum = entry.FileNum(w.uvarint()), w.offset(), w.uvarint(), w.uint32()
	if len(w.p) > 0 {
		j.Life = getLife(w)
		copy(j.Tag[:], w.nextBytes(crypt.TagSize))
	}
	return j
}

func putSession(b []byte, s layout.Session) []byte {
	return putJournalEnd(binary.LittleEndian.AppendUint64(putNumber(b, s.Number), s.ID), s.Found)
}

func getSession(w *wire) (s layout.Session) {
	s.Number = w.uvarint()
	if p := w.nextBytes(8); p != nil {
		s.ID = binary.LittleEndian.Uint64(p)
	}
	s.Found = getJournalEnd(w)
	return s
}

func putClock(b []byte, c layout.ClockSample) []byte {
	return binary.AppendVarint(putNumber(b, c.Version), c.UnixMilli)
}

func getClock(w *wire) layout.ClockSample {
	return layout.ClockSample{Version: w.version(), UnixMilli: w.varint()}
}

func putKeyspace(b []byte, k layout.Keyspace) []byte {
	return keyspaceFields.appendFields(putBytes(putNumber(b, k.ID), k.Name), &k.Options, k.Options.Unknown)
}

func getKeyspace(w *wire) layout.Keyspace {
	k := layout.Keyspace{ID: entry.KeyspaceID(w.uint32()), Name: string(w.readBytes())}
	keyspaceFields.readFields(w, &k.Options, &k.Options.Unknown)
	return k
}

func putFloor(b []byte, f layout.KeyspaceFloor) []byte {
	return putNumbers(b, uint64(f.ID), uint64(f.Version))
}

func getFloor(w *wire) layout.KeyspaceFloor {
	return layout.KeyspaceFloor{ID: entry.KeyspaceID(w.uint32()), Version: w.version()}
}

func putRun(b []byte, r layout.Run) []byte {
	b = append(putNumber(b, r.ID), byte(r.Tier))
	return runFields.appendFields(putNumber(b, r.Order), &r, r.Unknown)
}

func getRun(w *wire) layout.Run {
	r := layout.Run{ID: layout.RunID(w.uvarint()), Tier: layout.Tier(w.byte()), Order: w.uvarint()}
	runFields.readFields(w, &r, &r.Unknown)
	return r
}

// showRun shows the files, too: their numbers lead from a run to what is in the folder.
func showRun(w *wire) string {
	r := getRun(w)
	return fmt.Sprintf("%v %+v", r, r.Files)
}

func putFiles(b []byte, r *layout.Run) []byte {
	b = putNumbers(b, uint64(len(r.Files)))
	for _, f := range r.Files {
		b = putNumbers(b, uint64(f.Num), f.Size, uint64(f.Checksum))
	}
	if slices.ContainsFunc(r.Files, func(f meta.File) bool { return !f.Life.IsZero() }) {
		for _, f := range r.Files {
			b = appendLife(b, f.Life)
		}
	}
	return b
}

func getFiles(w *wire, r *layout.Run) {
	r.Files = make([]meta.File, w.readCount(3))
	for i := range r.Files {
		r.Files[i] = meta.File{Num: entry.FileNum(w.uvarint()), Size: w.uvarint(), Checksum: w.uint32()}
	}
	if len(w.p) > 0 {
		for i := range r.Files {
			r.Files[i].Life = getLife(w)
		}
	}
}

func putCounts(b []byte, r *layout.Run) []byte {
	return putNumbers(b, r.Entries, r.Deletes, r.KeyBytes, r.ValueBytes, r.SeparatedBytes,
		uint64(r.MinVersion), uint64(r.MaxVersion), r.MinExpiry)
}

func getCounts(w *wire, r *layout.Run) {
	r.Entries, r.Deletes, r.KeyBytes, r.ValueBytes, r.SeparatedBytes =
		w.uvarint(), w.uvarint(), w.uvarint(), w.uvarint(), w.uvarint()
	r.MinVersion, r.MaxVersion, r.MinExpiry = w.version(), w.version(), w.uvarint()
}

func putRefs(b []byte, r *layout.Run) []byte {
	b = putNumbers(b, uint64(len(r.Refs)))
	for _, f := range r.Refs {
		b = putNumbers(b, uint64(f.Segment), f.Records, f.Bytes)
	}
	return b
}

func getRefs(w *wire, r *layout.Run) {
	r.Refs = make([]meta.Ref, w.readCount(3))
	for i := range r.Refs {
		r.Refs[i] = meta.Ref{Segment: entry.FileNum(w.uvarint()), Records: w.uvarint(), Bytes: w.uvarint()}
	}
}

func putExpiry(b []byte, r *layout.Run) []byte {
	b = putNumbers(b, uint64(len(r.Expiry)))
	last := uint64(0)
	for _, x := range r.Expiry {
		b = putNumbers(b, x.At-last, x.Late, x.Entries, x.Bytes)
		last = x.At
	}
	return b
}

func getExpiry(w *wire, r *layout.Run) {
	// Times are written as distances, which take fewer bytes.
	r.Expiry = make([]entry.Expiring, w.readCount(4))
	last := uint64(0)
	for i := range r.Expiry {
		step := w.uvarint()
		if step == 0 || last+step < last {
			w.fail("times of expiry are not in order")
		}
		last += step
		r.Expiry[i] = entry.Expiring{At: last, Late: w.uvarint(), Entries: w.uvarint(), Bytes: w.uvarint()}
	}
}

func putSuperseded(b []byte, r *layout.Run) []byte {
	b = putNumbers(b, uint64(len(r.Superseded)))
	for _, s := range r.Superseded {
		b = putNumbers(b, uint64(s.Keyspace), uint64(s.Version), s.Keep, s.Entries, s.Bytes, s.Separated)
	}
	return b
}

func getSuperseded(w *wire, r *layout.Run) {
	r.Superseded = make([]meta.Superseded, w.readCount(6))
	for i := range r.Superseded {
		r.Superseded[i] = meta.Superseded{Keyspace: entry.KeyspaceID(w.uint32()), Version: w.version(),
			Keep: w.uvarint(), Entries: w.uvarint(), Bytes: w.uvarint(), Separated: w.uvarint()}
	}
}

func putDead(b []byte, d layout.Dead) []byte {
	b = putNumbers(b, uint64(d.Segment), d.Bytes)
	last := uint32(0)
	for _, g := range d.Granules {
		b = binary.AppendUvarint(b, uint64(g-last))
		last = g
	}
	return b
}

func getDead(w *wire) layout.Dead {
	d := layout.Dead{Segment: entry.FileNum(w.uvarint()), Bytes: w.uvarint()}
	// Lists have up to millions of granules. The last byte of each varint is
	// below 0x80, so counting these gives the length without decoding twice.
	n := 0
	for _, b := range w.p {
		if b < 0x80 {
			n++
		}
	}
	d.Granules = make([]uint32, 0, n)
	last := uint64(0)
	for len(w.p) > 0 {
		delta := w.uvarint()
		if delta == 0 && len(d.Granules) > 0 {
			w.fail("granule %d of segment %d twice", last, d.Segment)
		}
		if delta > 1<<32-1-last {
			w.fail("granule over 32 bits in segment %d", d.Segment)
			break
		}
		last += delta
		d.Granules = append(d.Granules, uint32(last))
	}
	return d
}
