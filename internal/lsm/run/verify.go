package run

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/pageio"
)

// Verify reads the whole run, whatever was verified before, and calls report for
// everything that is wrong: checksums, the order of entries, fences, index,
// filter and statistics that do not agree with the entries. What follows from other damage, as
// entries that can't be read are not counted, is marked so. Unless each is nil, it is called
// for every entry that is found; the entry is valid until each returns. When ctx ends, Verify
// returns after the current chunk.
func (r *Reader) Verify(ctx context.Context, report func(*errs.Corruption), each func(e *entry.Entry)) {
	v := newVerifier(r, report)
	v.each = each
	for i := range r.files {
		r.verifyFile(i, v.reportDamage)
	}
	v.verifyChunks(ctx)
	r.RangeDeletes().verifySpans(ctx, v.reportDamage)
	// The counts lack what was left out, so they would look wrong.
	if ctx.Err() != nil {
		return
	}
	if !slices.Equal(v.refs.sortedList(), r.meta.Refs) {
		c := errs.NewCorruption(r.files[0].Name(), -1, "entries refer to other segments than the manifest says")
		c.FollowUp = v.found > 0
		report(c)
	}
}

// verifier walks the chunks of a run. It reads each chunk again: what the file has now counts,
// not what was verified before.
type verifier struct {
	*Reader
	copies *cursor                // reads the chunks again
	report func(*errs.Corruption) // gets what is wrong
	found  int                    // how often report was called
	each   func(*entry.Entry)     // gets each entry; may be nil
	last   entry.Entry            // the entry before, without its value; across chunks
	lacks  bool                   // the chunk before is damaged: last may not be its last entry
	refs   refs                   // references of the entries so far
	asked  *pageio.Part           // the encrypted filter that words is
	words  bloom                  // that filter, decrypted
}

func newVerifier(r *Reader, report func(*errs.Corruption)) *verifier {
	return &verifier{Reader: r, copies: r.newCopier(), report: report, refs: newRefs()}
}

// reportDamage reports c.
func (v *verifier) reportDamage(c *errs.Corruption) {
	v.found++
	v.report(c)
}

// verifyChunks verifies all chunks, until ctx ends.
func (v *verifier) verifyChunks(ctx context.Context) {
	defer v.copies.Close()
	for i := range v.chunks {
		if ctx.Err() != nil {
			return
		}
		before := v.found
		v.verifyChunk(i)
		v.lacks = v.found > before
	}
}

// verifyChunk verifies chunk i.
func (v *verifier) verifyChunk(i int) {
	c, err := v.copies.loadChunk(i)
	failed := func(err error) { reportError(v.fileOf(i).Name(), v.chunks[i].Offset, err, v.reportDamage) }
	if err != nil {
		failed(err)
		return
	}
	fail := func(reason string) {
		v.reportDamage(errs.NewCorruption(c.File.Name, c.Offset, "%s", reason))
	}
	first := true
	c.Check(&v.fileOf(i).owner, failed, func(e *entry.Entry, newest bool) uint64 {
		// Behind a damaged chunk the last key is not known: then only the order is checked.
		if first && (!v.lacks && !v.chunks[i].suitsChunk(e.Key, v.last.Key, c.Prefix) || v.last.Key != nil && entry.Compare(&v.last, e) >= 0) {
			fail("first entry is not the one in the directory, or out of order")
		}
		first = false
		v.countEntry(e)
		if !newest {
			return 0
		}
		// Filter and index are asked with the hash that gets will use.
		h := checksum.HashKey(v.seed, e.Key)
		if !v.mayContain(e.Key, h) {
			fail("filter lacks a key")
		}
		return h
	})
	// Seeks leave out a run by the bounds in the manifest: what is beyond them is never found.
	if !first && v.meta.Last != nil && bytes.Compare(v.last.Key, v.meta.Last) > 0 {
		fail("last entry is beyond what the manifest says")
	}
	// Skips, estimates and the planner go by the numbers in the directory.
	if t, err := c.Trailer(); err == nil && t.Stats != v.chunks[i].Stats {
		fail("statistics are not those in the directory")
	}
}

// mayContain is MayContain, but reads an encrypted filter past the cache.
func (v *verifier) mayContain(key []byte, hash uint64) bool {
	s := v.filterOf(key)
	if s == nil {
		return true
	}
	if s.bloom != nil {
		return s.mayContain(hash)
	}
	if s.pages != v.asked {
		v.asked = s.pages
		v.words, _ = s.pages.ReadAll() // verifyFile tells of damage
	}
	return v.words.mayContain(hash)
}

// countEntry counts a reference, and remembers e for the check of order.
func (v *verifier) countEntry(e *entry.Entry) {
	v.refs.addEntry(e)
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
	// A sound directory of another file is as bad as a damaged one: chunks are read by the old one.
	if err == nil && (len(dir.chunks) != f.chunks || dir.ranges != f.dir.ranges) {
		err = errs.NewCorruption(f.Name(), -1, "directory has changed")
	}
	for i := 0; err == nil && i < len(dir.filters); i++ {
		err = f.verifyFilter(&dir.filters[i])
	}
	if err != nil {
		reportError(f.Name(), f.Size(), err, report)
	}
}

// verifyFilter reads a filter again.
func (f *file) verifyFilter(at *filterRecord) error {
	s, err := f.readFilter(at)
	if err != nil {
		return err
	}
	// Pages of an encrypted one are opened when they are used; of a plain one all were summed.
	if f.Key != nil {
		_, err = s.pages.ReadAll()
	}
	s.pages.Free()
	return err
}

// reportError reports err; one that is no Corruption becomes one.
func reportError(name string, offset int64, err error, report func(*errs.Corruption)) {
	var c *errs.Corruption
	if !errors.As(err, &c) {
		c = &errs.Corruption{File: name, Offset: offset, Reason: "unreadable", Err: err}
	}
	report(c)
}

// verifyHeader reads the header page again.
func (f *file) verifyHeader() error {
	// A plain file has none. Of an encrypted one only a salvage reads it: then it is too late to
	// find that it is damaged.
	if f.Key == nil {
		return nil
	}
	p := make([]byte, headerSize)
	if err := f.ReadFull(p, 0); err != nil {
		return err
	}
	err := checkHeader(p, &f.owner)
	if err == nil {
		err = f.Key.CheckPage(p)
	}
	return f.damagedPart(0, "header", err)
}
