package manifest

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/run/meta"
)

// The fields of an edit, as docs/format.md, "MANIFEST", describes them.
const (
	tagAddSegment    = 1
	tagDropRun       = 2
	tagAddRun        = 3
	tagDead          = 4
	tagSegmentState  = 5
	tagDropSegment   = 6
	tagFlushedTo     = 7
	tagJournalEnd    = 8
	tagLastVersion   = 9
	tagFloor         = 10
	tagClock         = 11
	tagNextFile      = 12
	tagSetKeyspace   = 13
	tagDropKeyspace  = 14
	tagCleanClose    = 15
	tagKeyspaceFloor = 16
	tagNextKeyspace  = 17

	// The fields within addRun.
	tagRunFiles      = 1
	tagRunBounds     = 2
	tagRunCounts     = 3
	tagRunRefs       = 4
	tagRunTombstones = 5
	tagRunStamp      = 8
	tagRunExpiry     = 9

	// The fields within addSegment.
	tagSegmentStamp = 8
)

// AppendEdit appends the encoding of e to dst.
func AppendEdit(dst []byte, e *Edit) []byte {
	uv := binary.AppendUvarint
	must := func(tag uint16, fill func([]byte) []byte) { dst = appendTLV(dst, tag, tlvRequired, fill) }
	may := func(tag uint16, fill func([]byte) []byte) { dst = appendTLV(dst, tag, 0, fill) }
	number := func(n uint64) func([]byte) []byte {
		return func(b []byte) []byte { return uv(b, n) }
	}
	for i := range e.AddSegments {
		must(tagAddSegment, e.AddSegments[i].append)
	}
	for _, id := range e.DropRuns {
		must(tagDropRun, number(uint64(id)))
	}
	for i := range e.AddRuns {
		must(tagAddRun, e.AddRuns[i].append)
	}
	for i := range e.Dead {
		must(tagDead, e.Dead[i].append)
	}
	for _, s := range e.States {
		must(tagSegmentState, func(b []byte) []byte {
			return uv(uv(uv(uv(b, uint64(s.Num)), uint64(s.Status)), uint64(s.Map)), uint64(s.Target))
		})
	}
	for _, n := range e.DropSegments {
		must(tagDropSegment, number(uint64(n)))
	}
	if e.FlushedTo != 0 {
		must(tagFlushedTo, number(uint64(e.FlushedTo)))
	}
	for _, j := range e.JournalEnds {
		must(tagJournalEnd, func(b []byte) []byte {
			return uv(uv(uv(uv(b, uint64(j.Segment)), j.Offset), j.Frame), uint64(j.Chain))
		})
	}
	if e.LastVersion != 0 {
		must(tagLastVersion, number(uint64(e.LastVersion)))
	}
	if e.Floor != 0 {
		must(tagFloor, number(uint64(e.Floor)))
	}
	for _, c := range e.Clock {
		may(tagClock, func(b []byte) []byte { return binary.AppendVarint(uv(b, uint64(c.Version)), c.UnixMilli) })
	}
	if e.NextFile != 0 {
		must(tagNextFile, number(uint64(e.NextFile)))
	}
	for _, k := range e.SetKeyspaces {
		must(tagSetKeyspace, func(b []byte) []byte {
			b = append(uv(uv(b, uint64(k.ID)), uint64(len(k.Name))), k.Name...)
			return k.Options.append(b)
		})
	}
	for _, id := range e.DropKeyspaces {
		must(tagDropKeyspace, number(uint64(id)))
	}
	for _, f := range e.KeyspaceFloors {
		must(tagKeyspaceFloor, func(b []byte) []byte { return uv(uv(b, uint64(f.ID)), uint64(f.Version)) })
	}
	if e.NextKeyspace != 0 {
		must(tagNextKeyspace, number(uint64(e.NextKeyspace)))
	}
	if e.CleanClose {
		may(tagCleanClose, func(b []byte) []byte { return b })
	}
	return appendUnknown(dst, e.Unknown)
}

// DecodeEdit decodes a whole edit; src may be overwritten afterwards. It gives
// errs.ErrFormat for a field of a later release that must be understood.
func DecodeEdit(src []byte) (*Edit, error) {
	e := new(Edit)
	w := wire{p: src}
	for {
		tag, required, value, more := w.tlv()
		if !more {
			break
		}
		if err := e.decodeField(tag, required, value); err != nil {
			return nil, fmt.Errorf("field %d: %w", tag, err)
		}
	}
	if w.err != nil {
		return nil, w.err
	}
	return e, nil
}

func (e *Edit) decodeField(tag uint16, required bool, value []byte) error {
	w := wire{p: value}
	switch tag {
	case tagAddSegment:
		e.AddSegments = append(e.AddSegments, decodeSegment(&w))
	case tagDropRun:
		e.DropRuns = append(e.DropRuns, RunID(w.uvarint()))
	case tagAddRun:
		e.AddRuns = append(e.AddRuns, decodeRun(&w))
	case tagDead:
		e.Dead = append(e.Dead, decodeDead(&w))
	case tagSegmentState:
		s := SegmentState{Num: entry.FileNum(w.uvarint())}
		status := w.uvarint()
		if status > uint64(Relocated) {
			w.fail("segment state %d", status)
		}
		s.Status = SegmentStatus(status)
		s.Map, s.Target = entry.FileNum(w.uvarint()), entry.FileNum(w.uvarint())
		e.States = append(e.States, s)
	case tagDropSegment:
		e.DropSegments = append(e.DropSegments, entry.FileNum(w.uvarint()))
	case tagFlushedTo:
		e.FlushedTo = entry.FileNum(w.uvarint())
	case tagJournalEnd:
		e.JournalEnds = append(e.JournalEnds, JournalEnd{
			Segment: entry.FileNum(w.uvarint()), Offset: w.uvarint(), Frame: w.uvarint(), Chain: w.uint32(),
		})
	case tagLastVersion:
		e.LastVersion = w.version()
	case tagFloor:
		e.Floor = w.version()
	case tagClock:
		e.Clock = append(e.Clock, ClockSample{Version: w.version(), UnixMilli: w.varint()})
	case tagNextFile:
		e.NextFile = entry.FileNum(w.uvarint())
	case tagSetKeyspace:
		e.SetKeyspaces = append(e.SetKeyspaces, decodeKeyspace(&w))
	case tagDropKeyspace:
		e.DropKeyspaces = append(e.DropKeyspaces, entry.KeyspaceID(w.uint32()))
	case tagKeyspaceFloor:
		e.KeyspaceFloors = append(e.KeyspaceFloors, KeyspaceFloor{ID: entry.KeyspaceID(w.uint32()), Version: w.version()})
	case tagNextKeyspace:
		e.NextKeyspace = w.uvarint()
	case tagCleanClose:
		e.CleanClose = true
	default:
		return keepUnknown(&e.Unknown, tag, required, value)
	}
	return w.end()
}

func keepUnknown(list *[]TLV, tag uint16, required bool, value []byte) error {
	if required {
		return fmt.Errorf("%w: the manifest has field %d of a later release, which must be understood", errs.ErrFormat, tag)
	}
	*list = append(*list, TLV{Tag: tag, Value: slices.Clone(value)})
	return nil
}

// rest decodes the fields at the end of w with field.
func (w *wire) rest(field func(tag uint16, required bool, value []byte) error) {
	for {
		tag, required, value, more := w.tlv()
		if !more {
			return
		}
		if err := field(tag, required, value); err != nil {
			w.err, w.p = err, nil
		}
	}
}

func (w *wire) version() entry.Version {
	v := entry.Version(w.uvarint())
	if v > entry.MaxVersion {
		w.fail("version %d", v)
		return 0
	}
	return v
}

func (s *Segment) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(s.Num))
	b = append(b, byte(s.Kind))
	b = binary.AppendUvarint(b, s.FileBytes)
	b = binary.AppendUvarint(b, s.Records)
	b = binary.AppendUvarint(b, s.Bytes)
	b = appendStamp(b, tagSegmentStamp, s.Stamp)
	return appendUnknown(b, s.Unknown)
}

func appendStamp(b []byte, tag uint16, v entry.Version) []byte {
	if v == 0 {
		return b
	}
	return appendTLV(b, tag, tlvRequired, func(b []byte) []byte { return binary.AppendUvarint(b, uint64(v)) })
}

func decodeSegment(w *wire) Segment {
	s := Segment{Num: entry.FileNum(w.uvarint())}
	if len(w.p) == 0 {
		w.fail("segment without kind")
		return s
	}
	s.Kind = filename.Kind(w.p[0])
	w.p = w.p[1:]
	if s.Kind != filename.Journal && s.Kind != filename.Value {
		w.fail("segment of %v", s.Kind)
	}
	s.FileBytes, s.Records, s.Bytes = w.uvarint(), w.uvarint(), w.uvarint()
	w.rest(func(tag uint16, required bool, value []byte) error {
		if tag != tagSegmentStamp {
			return keepUnknown(&s.Unknown, tag, required, value)
		}
		w := wire{p: value}
		s.Stamp = w.version()
		return w.end()
	})
	return s
}

func (r *Run) append(b []byte) []byte {
	uv := binary.AppendUvarint
	b = append(uv(b, uint64(r.ID)), byte(r.Tier))
	b = uv(b, r.Order)
	b = appendTLV(b, tagRunFiles, tlvRequired, func(b []byte) []byte {
		b = uv(b, uint64(len(r.Files)))
		for _, f := range r.Files {
			b = uv(uv(uv(b, uint64(f.Num)), f.Size), uint64(f.Checksum))
		}
		return b
	})
	b = appendTLV(b, tagRunBounds, tlvRequired, func(b []byte) []byte {
		b = append(uv(b, uint64(len(r.First))), r.First...)
		return append(uv(b, uint64(len(r.Last))), r.Last...)
	})
	b = appendTLV(b, tagRunCounts, tlvRequired, func(b []byte) []byte {
		for _, n := range []uint64{r.Entries, r.Deletes, r.KeyBytes, r.ValueBytes, r.SeparatedBytes,
			uint64(r.MinVersion), uint64(r.MaxVersion), r.MinExpiry} {
			b = uv(b, n)
		}
		return b
	})
	if len(r.Refs) > 0 {
		b = appendTLV(b, tagRunRefs, tlvRequired, func(b []byte) []byte {
			b = uv(b, uint64(len(r.Refs)))
			for _, f := range r.Refs {
				b = uv(uv(uv(b, uint64(f.Segment)), f.Records), f.Bytes)
			}
			return b
		})
	}
	if r.Tombstones > 0 {
		b = appendTLV(b, tagRunTombstones, tlvRequired, func(b []byte) []byte { return uv(b, r.Tombstones) })
	}
	b = appendStamp(b, tagRunStamp, r.Stamp)
	if len(r.Expiry) > 0 {
		b = appendTLV(b, tagRunExpiry, 0, func(b []byte) []byte {
			b = uv(b, uint64(len(r.Expiry)))
			last := uint64(0)
			for _, x := range r.Expiry {
				b = uv(uv(uv(uv(b, x.At-last), x.Late), x.Entries), x.Bytes)
				last = x.At
			}
			return b
		})
	}
	return appendUnknown(b, r.Unknown)
}

func decodeRun(w *wire) Run {
	r := Run{ID: RunID(w.uvarint())}
	if len(w.p) == 0 {
		w.fail("run without tier")
		return r
	}
	r.Tier = Tier(w.p[0])
	w.p = w.p[1:]
	r.Order = w.uvarint()
	w.rest(r.decodeField)
	return r
}

func (r *Run) decodeField(tag uint16, required bool, value []byte) error {
	w := wire{p: value}
	switch tag {
	case tagRunFiles:
		r.Files = make([]meta.File, w.count(3))
		for i := range r.Files {
			r.Files[i] = meta.File{Num: entry.FileNum(w.uvarint()), Size: w.uvarint(), Checksum: w.uint32()}
		}
	case tagRunBounds:
		r.First, r.Last = w.bytes(), w.bytes()
	case tagRunCounts:
		r.Entries, r.Deletes, r.KeyBytes, r.ValueBytes, r.SeparatedBytes =
			w.uvarint(), w.uvarint(), w.uvarint(), w.uvarint(), w.uvarint()
		r.MinVersion, r.MaxVersion, r.MinExpiry = w.version(), w.version(), w.uvarint()
	case tagRunRefs:
		r.Refs = make([]meta.Ref, w.count(3))
		for i := range r.Refs {
			r.Refs[i] = meta.Ref{Segment: entry.FileNum(w.uvarint()), Records: w.uvarint(), Bytes: w.uvarint()}
		}
	case tagRunTombstones:
		r.Tombstones = w.uvarint()
	case tagRunStamp:
		r.Stamp = w.version()
	case tagRunExpiry:
		r.Expiry = make([]entry.Expiring, w.count(4))
		last := uint64(0)
		for i := range r.Expiry {
			step := w.uvarint()
			if step == 0 || last+step < last {
				w.fail("times of expiry are not in order")
			}
			last += step
			r.Expiry[i] = entry.Expiring{At: last, Late: w.uvarint(), Entries: w.uvarint(), Bytes: w.uvarint()}
		}
	default:
		return keepUnknown(&r.Unknown, tag, required, value)
	}
	return w.end()
}

func (d *Dead) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(d.Segment))
	b = binary.AppendUvarint(b, d.Bytes)
	last := uint32(0)
	for _, g := range d.Granules {
		b = binary.AppendUvarint(b, uint64(g-last))
		last = g
	}
	return b
}

func decodeDead(w *wire) Dead {
	d := Dead{Segment: entry.FileNum(w.uvarint()), Bytes: w.uvarint()}
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
