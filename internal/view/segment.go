package view

import (
	"cmp"
	"slices"

	"github.com/brockdb/brock/internal/base/codec"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// Segment is an open segment. If a collection has moved its records, the file is gone, and
// Moved leads to where they are now.
type Segment struct {
	*segment.Reader // the open file; nil if relocated
	shared
	Num   entry.FileNum // its file number
	Moved *Relocation   // where its records are; nil unless relocated
}

// isOpenFor reports whether f is open for the state that s has in a layout.
func (f *Segment) isOpenFor(s *layout.Segment) bool {
	// A number is never used again, so the same forwarding table has the same content.
	if f.Moved != nil {
		return f.Moved.Header().Number == s.State().Map
	}
	return s.State().Status == layout.Live && f.Header().Kind == s.Kind
}

// fileBytes is the length of the file.
func (f *Segment) fileBytes() int64 {
	if f.Moved != nil {
		return f.Moved.Size()
	}
	return f.End()
}

// readStored reads the value of e, whose record is at h. For dst and from see
// segment.Reader.StoredIn.
func (f *Segment) readStored(dst []byte, from segment.Lender, h entry.Handle, key []byte, e *entry.Entry) (entry.Stored, error) {
	v, err := f.StoredIn(dst, from, h, key, e.Version)
	// The handle and the record must agree, or a wrong length would be decoded.
	if err == nil && v.Raw != e.Raw {
		return entry.Stored{}, errs.NewCorruption(filename.Of(f.Header().Kind, f.Num), int64(h.Offset),
			"compressed value of %d bytes, want %d", v.Raw, e.Raw)
	}
	return v, err
}

// decodeValue reads the compressed value of e, whose record is at h, and decodes it into memory of
// from or, without that, into dst if cap(dst) is enough.
func (f *Segment) decodeValue(coder *codec.Coder, h entry.Handle, key []byte, e *entry.Entry, dst []byte, from segment.Lender) ([]byte, error) {
	// What the record holds is needed no longer than here, so it needs no memory that is lent.
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	v, err := f.readStored(nil, s, h, key, e)
	if err != nil {
		return nil, err
	}
	if from != nil {
		dst = from.Room(int(e.Raw))
	}
	return f.Decode(coder, dst, v, h.Offset)
}

// Relocation tells where the records of a collected segment are now: a forwarding table. A
// View that has it also has its target.
type Relocation struct {
	*segment.Forwarding
	Target *Segment // the segment that has the records now
}

// lookup finds the new place of a record: a forwarding table, or a ForwardingCopy that verifies
// copies.
type lookup interface {
	Lookup(from uint64) (to uint64, ok bool, err error)
}

// forwardHandle changes h to the place that from has for its record.
func (r *Relocation) forwardHandle(h *entry.Handle, from lookup) error {
	// By offset alone: the length stays, as the record is copied as it is.
	to, ok, err := from.Lookup(h.Offset)
	if err != nil {
		return err
	}
	if !ok {
		return errs.NewCorruption(r.Name(), -1, "the record at %d of segment %d is needed, but was not moved", h.Offset, h.Segment)
	}
	h.Segment, h.Offset = r.Target.Num, to
	return nil
}

// resolveHandle is the place of h's record in the target.
func (r *Relocation) resolveHandle(h entry.Handle) (to entry.Handle, err error) {
	defer pageio.Guard(pageio.Arm(), &err, r.Name())
	err = r.forwardHandle(&h, r.Forwarding)
	return h, err
}

// TranslateDead translates a list of records of the relocated segment that have died to one of the
// target. The result goes into the manifest, so it is made of verified copies of pages.
func (r *Relocation) TranslateDead(list layout.Dead) (layout.Dead, error) {
	moved := layout.Dead{Segment: r.Target.Num, Bytes: list.Bytes}
	c := r.Copier()
	for _, g := range list.Granules {
		h := entry.Handle{Segment: list.Segment, Offset: uint64(g) * layout.Granule}
		if err := r.forwardHandle(&h, c); err != nil {
			return moved, err
		}
		moved.Granules = append(moved.Granules, uint32(h.Offset/layout.Granule))
	}
	return moved, nil
}

// ListRest lists all records that were moved and that are not in the target's dead set yet. Call it
// when no entry refers to the relocated segment any more: they are dead then.
func (r *Relocation) ListRest(l *layout.Layout) (layout.Dead, error) {
	target := l.Segment(r.Target.Num)
	return r.listMoved(l.Usage(r.Header().Source).Bytes, target.IsDead)
}

// listMoved lists the records that were moved, of some bytes, except those that are known to be
// dead.
func (r *Relocation) listMoved(bytes uint64, known func(to uint64) bool) (layout.Dead, error) {
	list := layout.Dead{Segment: r.Target.Num, Bytes: bytes}
	err := r.Copier().Places(func(to uint64) {
		if !known(to) {
			list.Granules = append(list.Granules, uint32(to/layout.Granule))
		}
	})
	return list, err
}

// ListDiedSince lists the records of a relocated segment that have died between the layouts
// since and l, as records of the target.
func (f *Segment) ListDiedSince(since, l *layout.Layout) (layout.Dead, error) {
	before, now := since.Segment(f.Num), l.Segment(f.Num)
	if now == nil { // the segment was dropped: all records are dead
		return f.Moved.listMoved(before.Bytes-before.DeadBytes(), func(uint64) bool { return false })
	}
	dead := layout.Dead{Segment: f.Num, Bytes: now.DeadBytes() - before.DeadBytes()}
	for g := range now.Dead() {
		if !before.IsDead(uint64(g) * layout.Granule) {
			dead.Granules = append(dead.Granules, g)
		}
	}
	return f.Moved.TranslateDead(dead)
}

// Segments finds an open segment by number. It is an immutable hash table with open
// addressing: every read of a separated value goes through it.
type Segments struct {
	Files   []*Segment // in order of number
	buckets []*Segment // a power of two long, at most half full; nil: free
}

// indexFactor is 2^64 divided by the golden ratio (multiplicative hashing: Knuth,
// TAOCP vol. 3, 6.4).
const indexFactor = 0x9e3779b97f4a7c15

// NewSegments makes an index of files, which it sorts and keeps.
func NewSegments(files []*Segment) Segments {
	slices.SortFunc(files, func(a, b *Segment) int { return cmp.Compare(a.Num, b.Num) })
	// At most half full, or probes would become long, and Find needs a free bucket to end.
	size := 4
	for size < 2*len(files) {
		size *= 2
	}
	x := Segments{Files: files, buckets: make([]*Segment, size)}
	for _, f := range files {
		i := x.homeBucket(f.Num)
		for x.buckets[i] != nil {
			i = (i + 1) & (size - 1)
		}
		x.buckets[i] = f
	}
	return x
}

// homeBucket is the bucket where the probe for a number begins.
func (x *Segments) homeBucket(num entry.FileNum) int {
	return int(uint64(num)*indexFactor>>32) & (len(x.buckets) - 1)
}

// Find returns the segment with this number, or nil.
func (x *Segments) Find(num entry.FileNum) *Segment {
	if len(x.buckets) == 0 {
		return nil
	}
	for i := x.homeBucket(num); ; i = (i + 1) & (len(x.buckets) - 1) {
		if f := x.buckets[i]; f == nil || f.Num == num {
			return f
		}
	}
}

// With returns an index of the segments in x and f.
func (x *Segments) With(f ...*Segment) Segments {
	return NewSegments(slices.Concat(x.Files, f))
}

// Without returns an index of the segments for which gone returns false.
func (x *Segments) Without(gone func(entry.FileNum) bool) Segments {
	return NewSegments(slices.DeleteFunc(slices.Clone(x.Files), func(f *Segment) bool { return gone(f.Num) }))
}
