package manifest

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// The tables follow docs/format.md, "MANIFEST". Their order is the one in which
// fields are written; tags alone say what a field is.

var editFields = fields[layout.Edit]{
	listField(1, must, "addSegment", func(e *layout.Edit) *[]layout.Segment { return &e.AddSegments }, codeSegment),
	listField(2, must, "dropRun", func(e *layout.Edit) *[]layout.RunID { return &e.DropRuns }, codeNumber),
	listField(3, must, "addRun", func(e *layout.Edit) *[]layout.Run { return &e.AddRuns }, codeRun),
	listField(4, must, "dead", func(e *layout.Edit) *[]layout.Dead { return &e.Dead }, codeDead),
	listField(5, must, "segmentState", func(e *layout.Edit) *[]layout.SegmentState { return &e.States }, codeState),
	listField(6, must, "dropSegment", func(e *layout.Edit) *[]entry.FileNum { return &e.DropSegments }, codeNumber),
	valueField(7, must, "flushedTo", func(e *layout.Edit) *entry.FileNum { return &e.FlushedTo }, codeNumber),
	listField(8, must, "journalEnd", func(e *layout.Edit) *[]frame.End { return &e.JournalEnds }, codeJournalEnd),
	valueField(9, must, "lastVersion", func(e *layout.Edit) *entry.Version { return &e.LastVersion }, codeVersion),
	valueField(10, must, "floor", func(e *layout.Edit) *entry.Version { return &e.Floor }, codeVersion),
	listField(11, may, "clock", func(e *layout.Edit) *[]layout.ClockSample { return &e.Clock }, codeClock),
	valueField(12, must, "nextFile", func(e *layout.Edit) *entry.FileNum { return &e.NextFile }, codeNumber),
	listField(13, must, "setKeyspace", func(e *layout.Edit) *[]layout.Keyspace { return &e.SetKeyspaces }, codeKeyspace),
	listField(14, must, "dropKeyspace", func(e *layout.Edit) *[]entry.KeyspaceID { return &e.DropKeyspaces }, codeNumber),
	listField(16, must, "keyspaceFloor", func(e *layout.Edit) *[]layout.KeyspaceFloor { return &e.KeyspaceFloors }, codeFloor),
	valueField(17, must, "nextKeyspace", func(e *layout.Edit) *uint64 { return &e.NextKeyspace }, codeNumber),
	valueField(18, may, "scrub", func(e *layout.Edit) *layout.Scrub { return &e.Scrub }, codeScrub),
	valueField(19, must, "dataKey", func(e *layout.Edit) *layout.DataKey { return &e.DataKey }, codeDataKey),
	listField(20, may, "session", func(e *layout.Edit) *[]layout.Session { return &e.Sessions }, codeSession),
	listField(21, may, "feedSegment", func(e *layout.Edit) *[]layout.FeedSegment { return &e.FeedSegments }, codeFeedSegment),
	listField(22, may, "feedCommit", func(e *layout.Edit) *[]layout.FeedCommit { return &e.FeedCommits }, codeFeedCommit),
	valueField(23, may, "feedFrom", func(e *layout.Edit) *entry.Version { return &e.FeedFrom }, codeVersion),
	valueField(24, may, "lasting", func(e *layout.Edit) *entry.Version { return &e.Lasting }, codeVersion),
	valueField(15, may, "cleanClose", func(e *layout.Edit) *bool { return &e.CleanClose },
		func(_ *wire, clean *bool) { *clean = true }),
}

var runFields = fields[layout.Run]{
	partsField(1, must, "files", isAlways, codeFiles),
	partsField(2, must, "bounds", isAlways, func(w *wire, r *layout.Run) { codeString(w, &r.First); codeString(w, &r.Last) }),
	partsField(3, must, "counts", isAlways, codeCounts),
	partsField(4, must, "refs", func(r *layout.Run) bool { return len(r.Refs) > 0 }, codeRefs),
	valueField(5, must, "rangeDeletes", func(r *layout.Run) *uint64 { return &r.RangeDeletes }, codeNumber),
	valueField(8, must, "stamp", func(r *layout.Run) *entry.Version { return &r.Stamp }, codeVersion),
	partsField(9, may, "expiry", func(r *layout.Run) bool { return len(r.Expiry) > 0 }, codeExpiry),
	partsField(10, may, "superseded", func(r *layout.Run) bool { return r.Superseded != nil }, codeSuperseded),
}

var segmentFields = fields[layout.Segment]{
	valueField(9, must, "keyID", func(s *layout.Segment) *crypt.FileKeyID { return &s.KeyID }, codeKeyID),
	valueField(8, must, "stamp", func(s *layout.Segment) *entry.Version { return &s.Stamp }, codeVersion),
}

var keyspaceFields = fields[layout.KeyspaceOptions]{
	valueField(1, may, "threshold", func(o *layout.KeyspaceOptions) *int64 { return &o.ValueThreshold }, codeSigned),
	valueField(2, must, "ttl", func(o *layout.KeyspaceOptions) *time.Duration { return &o.TTL }, codeSigned),
	valueField(3, must, "versions", func(o *layout.KeyspaceOptions) *int64 { return &o.Versions }, codeSigned),
	valueField(4, must, "age", func(o *layout.KeyspaceOptions) *time.Duration { return &o.Age }, codeSigned),
	valueField(5, may, "codec", func(o *layout.KeyspaceOptions) *int64 { return &o.Codec }, codeSigned),
	valueField(6, may, "compress above", func(o *layout.KeyspaceOptions) *int64 { return &o.CompressAbove }, codeSigned),
	valueField(7, must, "manual", func(o *layout.KeyspaceOptions) *bool { return &o.Manual }, codeFlag),
}

func isAlways(*layout.Run) bool { return true }

// AppendEdit appends the encoding of e to dst.
func AppendEdit(dst []byte, e *layout.Edit) []byte {
	w := wire{p: dst, writing: true}
	editFields.codeFields(&w, e, &e.Unknown)
	return w.p
}

// DecodeEdit decodes a whole edit; src may be overwritten afterwards. It returns
// errs.ErrFormat for a field of a later release that must be understood.
func DecodeEdit(src []byte) (*layout.Edit, error) {
	e := new(layout.Edit)
	w := wire{p: src}
	editFields.codeFields(&w, e, &e.Unknown)
	if w.err != nil {
		return nil, w.err
	}
	return e, nil
}

func codeSegment(w *wire, s *layout.Segment) {
	codeNumber(w, &s.Num)
	if codeOctet(w, &s.Kind); s.Kind != filename.Journal && s.Kind != filename.Value {
		w.failRead("segment of %v", s.Kind)
	}
	codeNumbers(w, &s.FileBytes, &s.Records, &s.Bytes)
	segmentFields.codeFields(w, s, &s.Unknown)
}

func codeState(w *wire, s *layout.SegmentState) {
	codeNumber(w, &s.Num)
	if codeNumber(w, &s.Status); s.Status > layout.Relocated {
		w.failRead("segment state %d", s.Status)
	}
	codeNumber(w, &s.Map)
	codeNumber(w, &s.Target)
	lastKeyID(w, &s.KeyID)
}

func codeJournalEnd(w *wire, j *frame.End) {
	codeNumber(w, &j.File)
	codeNumber(w, &j.Offset)
	codeNumber(w, &j.Number)
	codeNumber(w, &j.Sum)
	if lastKeyID(w, &j.KeyID) {
		w.codeBytes(j.Tag[:])
	}
}

func codeSession(w *wire, s *layout.Session) {
	codeNumber(w, &s.Number)
	id := binary.LittleEndian.AppendUint64(nil, s.ID)
	if w.codeBytes(id); !w.writing {
		s.ID = binary.LittleEndian.Uint64(id)
	}
	codeVersion(w, &s.Newest)
	codeVersion(w, &s.Lasts)
	codeJournalEnd(w, &s.Found)
}

func codeFeedSegment(w *wire, s *layout.FeedSegment) {
	codeVersion(w, &s.Last)
	codeJournalEnd(w, &s.End)
}

// The kinds of a feedCommit: what follows.
const (
	feedKeyspace = 1
	feedSpill    = 2
	feedAdvance  = 3 // nothing
)

func codeFeedCommit(w *wire, c *layout.FeedCommit) {
	codeVersion(w, &c.Version)
	codeNumber(w, &c.Skipped)
	kind := uint8(feedAdvance)
	if c.IsSpill() {
		kind = feedSpill
	} else if c.Keyspace.ID != entry.DefaultKeyspace {
		kind = feedKeyspace
	}
	switch codeOctet(w, &kind); kind {
	case feedKeyspace:
		dropped := uint8(0)
		if c.Keyspace.Dropped {
			dropped = 1
		}
		if codeOctet(w, &dropped); dropped > 1 {
			w.failRead("a keyspace changes by %d", dropped)
		}
		if !w.writing { // readers of the feed share it
			c.Keyspace.Dropped = dropped == 1
		}
		codeNumber(w, &c.Keyspace.ID)
		codeString(w, &c.Keyspace.Name)
	case feedAdvance:
	case feedSpill:
		codeSized(w, &c.Run, codeRun)
		codeList(w, &c.Segments, 1, func(w *wire, s *layout.Segment) { codeSized(w, s, codeSegment) })
	default:
		w.failRead("a commit of kind %d", kind)
	}
}

// codeSized is a value whose fields go on to its end, behind its length.
func codeSized[E any](w *wire, e *E, code func(*wire, *E)) {
	var part []byte
	if w.writing {
		inner := wire{writing: true}
		code(&inner, e)
		part = inner.p
	}
	codeString(w, &part)
	if w.writing {
		return
	}
	inner := wire{p: part}
	code(&inner, e)
	if err := inner.endError(); err != nil {
		w.failRead("%v", err)
	}
}

func codeScrub(w *wire, s *layout.Scrub) {
	codeSigned(w, &s.Began)
	codeSigned(w, &s.Ended)
	codeNumber(w, &s.UpTo)
	codeNumber(w, &s.Until)
}

func codeDataKey(w *wire, k *layout.DataKey) {
	w.codeBytes(k.ID[:])
	flags := uint8(0)
	if k.Rewrite {
		flags = 1
	}
	if codeOctet(w, &flags); flags > 1 {
		w.failRead("a data key with flags %#x", flags)
	}
	if !w.writing {
		k.Rewrite = flags == 1
	}
}

func codeClock(w *wire, c *layout.ClockSample) {
	codeVersion(w, &c.Version)
	codeSigned(w, &c.UnixMilli)
}

func codeKeyspace(w *wire, k *layout.Keyspace) {
	codeNumber(w, &k.ID)
	codeString(w, &k.Name)
	keyspaceFields.codeFields(w, &k.Options, &k.Options.Unknown)
}

func codeFloor(w *wire, f *layout.KeyspaceFloor) {
	codeNumber(w, &f.ID)
	codeVersion(w, &f.Version)
}

func codeRun(w *wire, r *layout.Run) {
	codeNumber(w, &r.ID)
	codeOctet(w, &r.Tier)
	codeNumber(w, &r.Order)
	runFields.codeFields(w, r, &r.Unknown)
}

func codeFiles(w *wire, r *layout.Run) {
	codeList(w, &r.Files, 3, func(w *wire, f *layout.RunFile) {
		codeNumber(w, &f.Num)
		codeNumber(w, &f.Size)
		codeNumber(w, &f.Checksum)
	})
	encrypted := slices.ContainsFunc(r.Files, func(f layout.RunFile) bool { return !f.KeyID.IsZero() })
	if w.writing && !encrypted || !w.writing && len(w.p) == 0 {
		return
	}
	for i := range r.Files {
		codeKeyID(w, &r.Files[i].KeyID)
	}
}

func codeCounts(w *wire, r *layout.Run) {
	codeNumbers(w, &r.Entries, &r.Deletes, &r.KeyBytes, &r.ValueBytes, &r.SeparatedBytes)
	codeVersion(w, &r.MinVersion)
	codeVersion(w, &r.MaxVersion)
	codeNumber(w, &r.MinExpiry)
}

func codeRefs(w *wire, r *layout.Run) {
	codeList(w, &r.Refs, 3, func(w *wire, f *layout.SegmentRef) {
		codeNumber(w, &f.Segment)
		codeNumbers(w, &f.Records, &f.Bytes)
	})
}

func codeExpiry(w *wire, r *layout.Run) {
	// Times are written as distances, which take fewer bytes.
	last := uint64(0)
	codeList(w, &r.Expiry, 4, func(w *wire, x *entry.Expiring) {
		at := x.At - last
		if codeNumber(w, &at); at == 0 || last+at < last {
			w.failRead("times of expiry are not in order")
		}
		if last += at; !w.writing {
			x.At = last
		}
		codeNumbers(w, &x.Late, &x.Entries, &x.Bytes)
	})
}

func codeSuperseded(w *wire, r *layout.Run) {
	codeList(w, &r.Superseded, 6, func(w *wire, s *layout.Superseded) {
		codeNumber(w, &s.Keyspace)
		codeVersion(w, &s.Version)
		codeNumbers(w, &s.Keep, &s.Entries, &s.Bytes, &s.Separated)
	})
}

func codeDead(w *wire, d *layout.Dead) {
	codeNumber(w, &d.Segment)
	codeNumber(w, &d.Bytes)
	if !w.writing {
		d.Granules = make([]uint32, countNumbers(w.p))
	}
	last := uint32(0)
	for i := range d.Granules {
		step := d.Granules[i] - last
		codeNumber(w, &step)
		if !w.writing && w.err == nil && (step == 0 && i > 0 || last+step < last) {
			w.failRead("the granules of segment %d don't ascend", d.Segment)
		}
		if w.err != nil {
			break
		}
		if last += step; !w.writing {
			d.Granules[i] = last
		}
	}
}

// countNumbers returns how many numbers p has. Lists have up to millions: so no slice has to grow.
func countNumbers(p []byte) (n int) {
	for _, b := range p {
		if b < 0x80 { // the last byte of each
			n++
		}
	}
	return n
}
