package run

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/hash"
	"github.com/brockdb/brock/internal/disk/blocks"
	"github.com/brockdb/brock/internal/lsm/chunk"
	"github.com/brockdb/brock/internal/version/layout"
)

// Verify reads the whole run, whatever was verified before, and calls report for
// everything that is wrong: checksums, the order of entries, fences, index,
// filter and statistics that do not agree with the entries. What follows from other damage, as
// entries that can't be read are not counted, is marked so. Unless each is nil, it is called
// for every entry that is found; the entry is valid until each returns. When ctx ends, Verify
// returns after the current chunk.
func (r *Reader) Verify(ctx context.Context, report func(*errs.Corruption), each func(e *entry.Entry)) {
	found := 0
	count := func(c *errs.Corruption) {
		found++
		report(c)
	}
	for i := range r.files {
		r.verifyFile(i, count)
	}
	v := newVerifier(r, count)
	defer v.copies.Close()
	v.each = each
	for i := range r.chunks {
		if ctx.Err() != nil {
			return
		}
		before := found
		v.verifyChunk(i)
		v.lacks = found > before
	}
	r.RangeDeletes().verifySpans(count)
	have := slices.Collect(maps.Values(v.refs))
	layout.SortRefs(have)
	if !slices.Equal(have, r.meta.Refs) {
		c := errs.NewCorruption(r.files[0].name, -1, "entries refer to other segments than the manifest says")
		c.FollowUp = found > 0
		report(c)
	}
}

// verifier walks the chunks of a run. It reads each chunk again: what the file has now counts,
// not what was verified before.
type verifier struct {
	*Reader
	copies *cursor                             // reads the chunks again
	report func(*errs.Corruption)              // gets what is wrong
	each   func(*entry.Entry)                  // gets each entry; may be nil
	last   entry.Entry                         // the entry before, without its value; across chunks
	lacks  bool                                // the chunk before is damaged: last may not be its last entry
	refs   map[entry.FileNum]layout.SegmentRef // references of the entries so far, by segment
	asked  *blocks.Part                        // the encrypted filter that words is
	words  bloom                               // that filter, decrypted
}

func newVerifier(r *Reader, report func(*errs.Corruption)) *verifier {
	return &verifier{Reader: r, copies: r.newCopier(), report: report, refs: map[entry.FileNum]layout.SegmentRef{}}
}

// verifyChunk verifies chunk i.
func (v *verifier) verifyChunk(i int) {
	c, err := v.copies.loadChunk(i)
	if err != nil {
		reportError(v.fileOf(i).name, v.dir[i].offset, err, v.report)
		return
	}
	fail := func(reason string) {
		v.report(errs.NewCorruption(c.Place.File, c.Place.Offset, "%s", reason))
	}
	prefix, err := v.prefix(i, c)
	if err != nil {
		reportError(v.fileOf(i).name, v.dir[i].offset, err, v.report)
		return
	}
	first := true
	c.Check(&v.fileOf(i).owner, prefix, v.report, func(e *entry.Entry, newest bool) uint64 {
		// Behind a damaged chunk the last key is not known: then only the order is checked.
		if first && (!v.lacks && !v.chunkBound(i).suitsChunk(e.Key, v.last.Key, c.Prefix) || v.last.Key != nil && entry.Compare(&v.last, e) >= 0) {
			fail("first entry is not the one in the directory, or out of order")
		}
		first = false
		v.countEntry(e)
		if !newest {
			return 0
		}
		// Filter and index are asked with the hash that gets will use.
		h := hash.Sum(v.seed, e.Key)
		if !v.mayContain(e.Key, h) {
			fail("filter lacks a key")
		}
		return h
	})
	if !first && v.meta.Last != nil && bytes.Compare(v.last.Key, v.meta.Last) > 0 {
		fail("last entry is beyond what the manifest says")
	}
	if t, err := c.Trailer(); err == nil && t.Stats != v.dir[i].Stats {
		fail("statistics are not those in the directory")
	}
}

// mayContain is MayContain, but reads an encrypted filter past the cache.
func (v *verifier) mayContain(key []byte, hash uint64) bool {
	s := v.filterOf(key)
	if s == nil {
		return true
	}
	if s.encrypted == nil {
		return s.mayContain(hash)
	}
	if s.encrypted != v.asked {
		v.asked = s.encrypted
		v.words, _ = s.encrypted.All() // verifyFile tells of damage
	}
	return v.words.mayContain(hash)
}

// chunkBound is the bound of chunk i.
func (v *verifier) chunkBound(i int) *bound {
	s := &v.keys.spans[i]
	return &bound{key: v.keys.from(i), apart: int(s.apart), again: s.again, long: s.long}
}

// countEntry counts a reference, and remembers e for the check of order.
func (v *verifier) countEntry(e *entry.Entry) {
	if e.Separated {
		f := v.refs[e.Handle.Segment]
		v.refs[e.Handle.Segment] = layout.SegmentRef{Segment: e.Handle.Segment, Records: f.Records + 1, Bytes: f.Bytes + e.Handle.Length}
	}
	v.last = entry.Entry{Key: append(v.last.Key[:0], e.Key...), Version: e.Version}
	if v.each != nil {
		v.each(e)
	}
}

// verifyFile reads a file's directory, footer and filter again.
func (r *Reader) verifyFile(i int, report func(*errs.Corruption)) {
	f := r.files[i]
	dir, _, err := f.readDirectory(f.File, f.Size())
	if err == nil {
		err = f.verifyHeader()
	}
	if err == nil && (len(dir.chunks) != f.chunks || dir.ranges != f.dir.ranges) {
		err = errs.NewCorruption(f.name, -1, "directory has changed")
	}
	for i := 0; err == nil && i < len(dir.filters); i++ {
		err = f.verifyFilter(&dir.filters[i])
	}
	if err != nil {
		reportError(f.name, uint64(f.Size()), err, report)
	}
}

// verifyFilter reads a filter again.
func (f *file) verifyFilter(at *filterRecord) error {
	if f.key != nil {
		b := make([]byte, at.words*8, at.words*8+chunk.Room)
		if err := f.ReadFull(b, int64(at.offset)); err != nil {
			return err
		}
		return f.decryptFilter(at, b)
	}
	again := &file{File: f.File, origin: f.origin}
	s, err := again.readFilter(at)
	if err == nil {
		s.pages.Free()
	}
	return err
}

// reportError reports err; one that is no Corruption becomes one.
func reportError(name string, offset uint64, err error, report func(*errs.Corruption)) {
	var c *errs.Corruption
	if !errors.As(err, &c) {
		c = &errs.Corruption{File: name, Offset: int64(offset), Reason: "unreadable", Err: err}
	}
	report(c)
}

// verifyHeader reads the header page again.
func (f *file) verifyHeader() error {
	if f.key == nil {
		return nil
	}
	p := make([]byte, headerSize)
	if err := f.ReadFull(p, 0); err != nil {
		return err
	}
	err := checkHeader(p, &f.owner)
	if err == nil {
		err = f.key.CheckPage(p)
	}
	if err != nil {
		return &errs.Corruption{File: f.name, Offset: 0, Reason: "header", Err: err}
	}
	return nil
}
