package run

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/blocks"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/chunk"
)

// A run of few keys has one filter, written when the run is finished. In a large run that would
// take memory for the hashes of all keys. So there each filter has the keys of some chunks that
// follow each other.

// DefaultFilterKeys (256 Ki) is the number of keys at which a filter is written. A
// filter also has the other keys of its last chunk.
const DefaultFilterKeys = 1 << 18

// pageWords is the number of words in a page. A filter between chunks has whole pages.
const pageWords = chunk.PageSize / 8

// filterRecord says where a filter is.
type filterRecord struct {
	chunks        uint32 // number of chunks that it is for, behind those before; 0: all of the run
	checksum      uint32 // of all its words; 0 in an encrypted file
	offset, words uint64 // where it begins in the file, and its length in words of 8 bytes
	tags          []byte // of its pages; nil: the file is plain
}

const filterRecordSize = 24 // bytes of a filter in the directory

// appendFilters appends the sections of a directory for its filters.
func appendFilters(b []byte, d *directory) []byte {
	if f := &d.filter; f.words > 0 {
		var at int
		b, at = chunk.AppendSection(b, secFilter, 0)
		b = binary.LittleEndian.AppendUint32(b, filterWords)
		b = f.appendPlace(b)
		b = chunk.EndSection(b, at)
	}
	if len(d.parts) > 0 {
		var at int
		b, at = chunk.AppendSection(b, secFilters, 0)
		b = binary.LittleEndian.AppendUint32(b, filterWords)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(d.parts)))
		for i := range d.parts {
			b = binary.LittleEndian.AppendUint32(b, d.parts[i].chunks)
			b = d.parts[i].appendPlace(b)
		}
		b = chunk.EndSection(b, at)
	}
	return b
}

// appendPlace appends checksum, offset and length.
func (f *filterRecord) appendPlace(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, f.checksum)
	b = binary.LittleEndian.AppendUint64(b, f.offset)
	return binary.LittleEndian.AppendUint64(b, f.words)
}

// decodePlace decodes what appendPlace appends; the filter must end before end.
func (f *filterRecord) decodePlace(p []byte, end uint64) error {
	f.checksum = binary.LittleEndian.Uint32(p)
	f.offset, f.words = binary.LittleEndian.Uint64(p[4:]), binary.LittleEndian.Uint64(p[12:])
	// Compared before lengths are added: the numbers may be anything.
	if f.offset > end || f.words > (end-f.offset)/8 {
		return fmt.Errorf("filter of %d words at %d", f.words, f.offset)
	}
	return nil
}

// decodeFilter decodes the section of a filter for the whole run. A filter of an
// unknown kind is left out: gets are slower without it, and right.
func (d *directory) decodeFilter(p []byte, end uint64) error {
	if len(p) < filterRecordSize || binary.LittleEndian.Uint32(p) != filterWords {
		return nil
	}
	return d.filter.decodePlace(p[4:], end)
}

// decodeFilters decodes the section of filters for some chunks each.
func (d *directory) decodeFilters(p []byte, end uint64) error {
	if len(p) < 8 || binary.LittleEndian.Uint32(p) != filterWords {
		return nil
	}
	n, p := binary.LittleEndian.Uint32(p[4:]), p[8:]
	if uint64(n) > uint64(len(p))/filterRecordSize {
		return fmt.Errorf("%d filters in %d bytes", n, len(p))
	}
	d.parts = make([]filterRecord, n)
	for i := range d.parts {
		f := &d.parts[i]
		f.chunks = binary.LittleEndian.Uint32(p)
		if err := f.decodePlace(p[4:], end); err != nil {
			return err
		}
		if f.chunks == 0 || f.words == 0 {
			return fmt.Errorf("filter of %d words for %d chunks", f.words, f.chunks)
		}
		p = p[filterRecordSize:]
	}
	return nil
}

// writeFilterPart writes the filter of the chunks since the last filter.
func (w *Writer) writeFilterPart() error {
	// Chunks begin on pages, so a filter between two of them fills whole pages.
	n := (bloomWords(len(w.hashes)) + pageWords - 1) / pageWords * pageWords
	f, err := w.writeWords(max(n, pageWords))
	if err != nil {
		return err
	}
	f.chunks = uint32(w.chunks - w.filtered)
	w.filtered = w.chunks
	w.dir.parts = append(w.dir.parts, f)
	w.dirBytes += filterRecordSize
	return nil
}

// writeFilter writes the filter of the chunks that have none yet.
func (w *Writer) writeFilter() error {
	switch {
	case w.cfg.NoFilter || w.filtered == w.chunks:
		return nil
	case w.filtered > 0:
		return w.writeFilterPart()
	case len(w.hashes) == 0:
		return nil
	}
	f, err := w.writeWords(bloomWords(len(w.hashes)))
	w.dir.filter = f
	return err
}

// writeWords writes a filter of n words with the hashes so far, and forgets these.
func (w *Writer) writeWords(n int) (filterRecord, error) {
	f := make(bloom, 8*n, 8*n+chunk.Room)
	for _, h := range w.hashes {
		f.addHash(h)
	}
	w.hashes = w.hashes[:0]
	r := filterRecord{offset: uint64(w.offset), words: uint64(n)}
	if w.enc == nil {
		r.checksum = w.id.Sum(w.offset, f)
	} else if err := r.encryptFilter(f, w.enc); err != nil {
		return r, w.fail(err)
	}
	w.dirBytes += int64(len(r.tags))
	return r, w.writeBytes(f)
}

// readFilters reads the filters of the run whose files and directories are
// open: in place where they are mapped.
func (r *Reader) readFilters() (err error) {
	last := r.files[len(r.files)-1]
	if last.dir.filter.words > 0 {
		r.filter, err = last.readFilter(&last.dir.filter)
		return err
	}
	for _, f := range r.files {
		for i := range f.dir.parts {
			at := &f.dir.parts[i]
			if uint64(len(r.parts))+uint64(at.chunks) > uint64(len(r.dir)) {
				return errs.NewCorruption(f.name, int64(at.offset), "filter is for chunks that the run doesn't have")
			}
			part, err := f.readFilter(at)
			if err != nil {
				return err
			}
			for range at.chunks {
				r.parts = append(r.parts, part)
			}
		}
	}
	if len(r.parts) > 0 {
		// Chunks without a filter get an empty one, which may contain every key.
		r.parts = append(r.parts, make([]summed, len(r.dir)-len(r.parts))...)
	}
	return nil
}

// summed is a filter of a run. A plain one is read in place, and its pages are verified when
// they are first needed. The pages of an encrypted one are decrypted when they are needed.
type summed struct {
	bloom
	pages    *pageio.Summed  // verifies pages at first use; nil: the filter is empty, or encrypted
	verified pageio.PageBits // the pages that were verified, as pages knows them

	words     int          // length of an encrypted filter
	encrypted *blocks.Part // nil: the filter is empty, or plain
}

// mayContain is MayContain. A damaged filter counts as if it had every key: the chunks are then
// searched, and these are right.
func (s *summed) mayContain(hash uint64) bool {
	if s.pages == nil {
		return s.encrypted == nil || s.decrypted(hash)
	}
	at := bloomOffset(hash, len(s.bloom)/wordBytes)
	// The usual case, a verified page, costs one load.
	if !s.verified.Test(at / chunk.PageSize) {
		if _, err := s.pages.Bytes(int64(at), 1); err != nil {
			return true
		}
	}
	return wordHas(s.bloom[at:], hash)
}

// decrypted is mayContain for an encrypted filter.
func (s *summed) decrypted(hash uint64) bool {
	// A filter is asked for one word, so one page is decrypted.
	at := bloomOffset(hash, s.words)
	word, err := s.encrypted.Block(at, true).Page(at)
	return err != nil || wordHas(word, hash)
}

// readFilter reads and checks one filter. An encrypted one is read later, page by page.
func (f *file) readFilter(at *filterRecord) (summed, error) {
	if at.words > math.MaxInt32 {
		return summed{}, errs.NewCorruption(f.name, int64(at.offset), "filter of %d words", at.words)
	}
	if f.key != nil {
		return summed{words: int(at.words), encrypted: blocks.NewPart(f.blocks, crypt.Filter, int64(at.offset), int(at.words)*8, at.tags)}, nil
	}
	pages, crc, err := f.Sum(int64(at.offset), int64(at.words)*8)
	if err != nil {
		return summed{}, err
	}
	if got := crc ^ f.id.Mask(int64(at.offset)); got != at.checksum {
		pages.Free()
		return summed{}, errs.NewCorruption(f.name, int64(at.offset), "filter: checksum %#x, want %#x", got, at.checksum)
	}
	f.filters = append(f.filters, pages)
	return summed{bloom: pages.Data(), pages: pages, verified: pages.Verified()}, nil
}

// FilterBytes returns how many bytes of memory the filters take that are neither mapped nor cached.
func (r *Reader) FilterBytes() (n int64) {
	for _, f := range r.files {
		if f.Mapped() != nil || f.key != nil {
			// In the page cache, or in the Cache, which count them.
			continue
		}
		n += int64(f.dir.filter.words) * 8
		for i := range f.dir.parts {
			n += int64(f.dir.parts[i].words) * 8
		}
	}
	return n
}

// IndexBytes returns about how much memory the directories and the bounds of chunks take.
func (r *Reader) IndexBytes() int64 {
	const perChunk = 512 // its record, its Chunk and its parsed trailer
	n := int64(len(r.dir)*perChunk + len(r.keys.blob))
	if r.spans != nil {
		n += r.spans.IndexBytes()
	}
	return n
}

// MayContain reports whether the run may hold a version of the key, which has this
// hash. False is certain; true is wrong for about 1.5 % of absent keys.
func (r *Reader) MayContain(key []byte, hash uint64) bool {
	if r.parts == nil {
		return r.filter.mayContain(hash)
	}
	// After an error of the search the answer is true, and Get returns the error.
	i, err := r.searchNewest(key)
	return err != nil || i < len(r.parts) && r.parts[i].mayContain(hash)
}

// tagFilters gives the filters of an encrypted file their tags, which lie in b in the order
// of the filters in the file, one for each page.
func (d *directory) tagFilters(b []byte) error {
	for _, f := range d.filters() {
		n := f.pages() * crypt.TagSize
		if uint64(len(b)) < n {
			return fmt.Errorf("no tags for the filter at %d", f.offset)
		}
		f.tags, b = bytes.Clone(b[:n]), b[n:] // they stay, unlike the rest of the directory
	}
	if len(b) > 0 {
		return fmt.Errorf("%d bytes of tags for no filter", len(b))
	}
	return nil
}

// filters returns the filters in the order in which they lie in the file.
func (d *directory) filters() (list []*filterRecord) {
	for i := range d.parts {
		list = append(list, &d.parts[i])
	}
	if d.filter.words > 0 {
		list = append(list, &d.filter)
	}
	return list
}

// pages is the number of the filter's pages, each of which has a tag.
func (f *filterRecord) pages() uint64 { return (f.words*8 + chunk.PageSize - 1) / chunk.PageSize }

// encryptFilter encrypts a filter, which begins at r.offset and has Room behind, page by page.
func (r *filterRecord) encryptFilter(f []byte, e *crypt.Encrypter) error {
	if err := chunk.Begin(e, int64(r.offset), len(f)); err != nil {
		return err
	}
	for at := 0; at < len(f); at += chunk.PageSize {
		page := f[at:min(at+chunk.PageSize, len(f))]
		tag, err := e.Encrypt(page, page, crypt.Filter, int64(r.offset)+int64(at), nil)
		if err != nil {
			return err
		}
		r.tags = append(r.tags, tag[:]...)
	}
	return nil
}

// decryptFilter decrypts the filter in f, which has Room behind, in place.
func (o *origin) decryptFilter(r *filterRecord, f []byte) error {
	for at := 0; at < len(f); at += chunk.PageSize {
		page := f[at:min(at+chunk.PageSize, len(f))]
		tag := crypt.Tag(r.tags[at/chunk.PageSize*crypt.TagSize:])
		if err := o.key.Decrypt(page, page, &tag, crypt.Filter, int64(r.offset)+int64(at), 0, nil); err != nil {
			return &errs.Corruption{File: o.name, Offset: int64(r.offset) + int64(at), Reason: "filter", Err: err}
		}
	}
	return nil
}
