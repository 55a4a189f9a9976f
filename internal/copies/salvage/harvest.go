package salvage

import (
	"context"
	"maps"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// harvest reads all journal and value segments. Records that no run has yet are strong: they
// count as entries of runs do. Other records are weak: they count only where a run has a hole,
// or as another copy of a value. Deletes are always strong, as newer versions win over them.
type harvest struct {
	*survey
	flushed      entry.Version // every version up to this one is in a run
	strong, weak *sorter       // records by how they count; strong has all range deletes, too

	void    map[entry.FileNum]uint64   // by journal segment: frames from this one on don't count, as a recovery has cut them
	known   map[entry.FileNum]knownEnd // by journal segment: how far it went
	owners  map[uint64]entry.FileNum   // by number of a frame that ends a journal segment: that segment
	durable uint64                     // greatest number of a journal frame that was durable
	unknown uint64                     // records of the present segment without a known version
}

// knownEnd is how far a journal segment went, as the manifest or the next segment tells.
type knownEnd struct {
	frame uint64        // number of the last frame in it, or in those before if it has none
	upTo  entry.Version // no record up to there is newer
}

// readAll reads all segments, and reports those that are missing.
func (h *harvest) readAll(ctx context.Context) error {
	// Headers first: a segment doesn't say itself where it was cut; the next one does.
	if err := h.readHeaders(); err != nil {
		return err
	}
	for _, kind := range []filename.Kind{filename.Journal, filename.Value} {
		for _, num := range h.files[kind] {
			if err := errs.Ended(ctx); err != nil {
				return err
			}
			if err := h.readSegment(ctx, filename.New(kind, num)); err != nil {
				return err
			}
		}
	}
	h.reportMissing()
	return nil
}

// readHeaders reads the headers of all journal segments, to find out which frames count.
func (h *harvest) readHeaders() error {
	h.void, h.known, h.owners = map[entry.FileNum]uint64{}, map[entry.FileNum]knownEnd{}, map[uint64]entry.FileNum{}
	for _, num := range h.files[filename.Journal] {
		r, err := h.openSegment(filename.New(filename.Journal, num))
		if err != nil {
			continue // readSegment reports it
		}
		head := r.Header()
		if p := head.Before.File; p != 0 {
			// A segment may have been continued twice, after two crashes. What the earlier recovery
			// gave up stays given up.
			if at, found := h.void[p]; !found || head.FirstFrame() < at {
				h.void[p] = head.FirstFrame()
			}
			h.known[p] = knownEnd{h.void[p] - 1, max(h.known[p].upTo, head.PrevVersion)}
		}
		h.version = max(h.version, head.PrevVersion)
		d, err := r.Durable()
		if err != nil {
			return err
		}
		h.durable = max(h.durable, d)
	}
	for _, e := range h.layout.JournalEnds() {
		h.durable = max(h.durable, e.Number)
		h.owners[e.Number] = e.File
		h.known[e.File] = knownEnd{max(h.known[e.File].frame, e.Number), entry.MaxVersion}
	}
	return nil
}

// mayCount reports whether a segment may have records that count.
func (h *harvest) mayCount(name filename.Name) bool {
	return !h.exact || h.layout.Segment(name.Number) != nil || name.Kind == filename.Journal && name.Number > h.layout.FlushedTo()
}

// isUnflushed reports whether a record is in no run yet.
func (h *harvest) isUnflushed(name filename.Name, v entry.Version) bool {
	if h.exact {
		return name.Kind == filename.Journal && name.Number > h.layout.FlushedTo()
	}
	return v > h.flushed
}

// readSegment reads the records of a segment.
func (h *harvest) readSegment(ctx context.Context, name filename.Name) error {
	if !h.mayCount(name) {
		return nil
	}
	r, err := h.openSegment(name)
	if err != nil {
		c := newLoss(name, -1, true, "it can't be opened")
		c.Err = err
		// Report it and go on: all other files may be sound.
		h.reportLoss(c)
		h.doubtIn(name)
		return nil
	}
	h.unknown = 0
	records := 0
	err = r.Each(segment.Limits{Before: h.void[name.Number], Durable: h.durable}, func(off int64, rec *entry.Record) error {
		// Seldom enough to cost nothing, often enough to end soon.
		if records++; records%1024 == 0 && ctx.Err() != nil {
			return errs.Ended(ctx)
		}
		return h.addRecord(name, off, rec)
	}, func(from, to int64) {
		h.doubtIn(name)
		h.reportLoss(newLoss(name, from, h.isUnflushed(name, entry.MaxVersion), "records in these %d bytes are damaged: those without a checksum of their own are lost", to-from))
	})
	if !r.Sealed {
		h.doubtIn(name)
	}
	if name.Kind == filename.Journal {
		h.owners[r.Last] = name.Number
	}
	if h.unknown > 0 {
		h.reportLoss(newLoss(name, -1, false, "it has records of a large transaction, and nothing says whether that was committed: left out"))
	}
	return err
}

// addRecord adds a record to the sorter that it belongs to.
func (h *harvest) addRecord(name filename.Name, off int64, rec *entry.Record) error {
	e := entry.Entry{Key: rec.Key, Value: rec.Value, Version: rec.Version, Expires: rec.Expires, Kind: rec.Kind, Meta: rec.Meta, Raw: rec.Raw}
	if e.Version == 0 {
		// Records of a large transaction have version 0 in their files. An edit, or a run, says
		// which one they got.
		e.Version = h.stamps[name]
	}
	switch {
	case e.Version == 0:
		h.unknown++
		return nil
	// Keys of dropped keyspaces must not come back.
	case len(e.Key) == 0 || h.isForgotten(e.Key):
		return nil
	}
	h.version = max(h.version, e.Version)
	switch {
	case e.Kind == entry.RangeDelete:
		if t := (rangedel.Delete{Lo: e.Key, Hi: e.Value, Version: e.Version}); t.Valid() {
			return h.strong.addRangeDelete(t)
		}
		return nil // no transaction writes such a record
	// Strong in any case: a delete too many is impossible, as a newer version of the key wins over
	// it.
	case e.Kind == entry.Delete:
		e.Value, e.Raw = nil, 0
		return h.strong.addEntry(&e)
	// The value stays where it is until the key is written: memory would not do for all.
	case rec.Own && rec.Size >= layout.Granule:
		e.Value, e.Separated = nil, true
		e.Handle = entry.Handle{Segment: name.Number, Offset: uint64(off), Length: uint64(rec.ValueSize)}
	}
	if h.isUnflushed(name, e.Version) {
		return h.strong.addEntry(&e)
	}
	// An entry owned it once, and was replaced by a newer one.
	if s := h.layout.Segment(name.Number); s != nil && e.Separated && s.IsDead(uint64(off)) {
		return nil
	}
	return h.weak.addEntry(&e)
}

// doubtIn notes that records of a segment are lost. If it is one of a large transaction, they may
// have replaced records of the same version in earlier ones.
func (h *harvest) doubtIn(name filename.Name) {
	if at := h.stamps[name]; at != 0 {
		h.doubt[at] = max(h.doubt[at], name.Number)
	}
}

// reportMissing reports the segments that should exist, and don't.
func (h *harvest) reportMissing() {
	for name := range h.stamps {
		if name.Kind == filename.Value && !h.hasFile(name.Kind, name.Number) {
			// Of a large transaction all segments are needed to know which of its values was the
			// last one of a key.
			h.doubtIn(name)
		}
	}
	for _, s := range h.layout.Segments() {
		if s.State().Status == layout.Live && h.exact && !h.hasFile(s.Kind, s.Num) {
			h.reportLoss(newLoss(filename.New(s.Kind, s.Num), -1, true, "it is not there: its values are lost"))
		}
	}
	h.reportEnds()
}

// reportEnds reports the journal segments that have lost frames at their end, or all of them. What
// is flushed is in runs, and no loss.
func (h *harvest) reportEnds() {
	for _, num := range slices.Sorted(maps.Keys(h.known)) {
		end, name := h.known[num], filename.New(filename.Journal, num)
		if num <= h.layout.FlushedTo() || !h.isUnflushed(name, end.upTo) {
			continue
		}
		owner, owned := h.owners[end.frame]
		switch r, err := h.openSegment(name); {
		case err == nil && r.Last < end.frame:
			h.reportLoss(newLoss(name, r.End(), true, "its end is lost: the last frame is %d, and there were %d", r.Last, end.frame))
		// The frame was durable, and is in no other segment.
		case !h.hasFile(name.Kind, num) && 0 < end.frame && end.frame <= h.durable && (!owned || owner == num):
			h.reportLoss(newLoss(name, -1, true, "it is not there: the commits in it are lost, and in those before it that are not there"))
		}
	}
}
