package run

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/chunk"
)

// Each filter has the keys of some chunks that follow each other. So a large run is written without
// the hashes of all its keys in memory. A run of fewer keys has one filter, behind all chunks.

// DefaultFilterKeys (256 Ki) is the number of keys at which a filter is written. A
// filter also has the other keys of its last chunk.
const DefaultFilterKeys = 1 << 18

// pageWords is the number of words in a page. A filter between chunks has whole pages.
const pageWords = chunk.PageSize / 8

// filterRecord says where a filter is.
type filterRecord struct {
	chunks        uint32 // number of chunks that it is for, behind those of the filter before
	checksum      uint32 // of all its words; 0 in an encrypted file
	offset, words uint64 // where it begins in the file, and its length in words of 8 bytes
	tags          []byte // of its pages; nil: the file is plain
}

const filterRecordSize = 24 // bytes of a filter in the directory

// appendFilters appends the payload of the section of filters.
func (d *directory) appendFilters(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, filterWords)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(d.filters)))
	for i := range d.filters {
		b = d.filters[i].appendRecord(b)
	}
	return b
}

// appendRecord appends the record of a filter.
func (f *filterRecord) appendRecord(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, f.chunks)
	b = binary.LittleEndian.AppendUint32(b, f.checksum)
	b = binary.LittleEndian.AppendUint64(b, f.offset)
	return binary.LittleEndian.AppendUint64(b, f.words)
}

// decodeRecord decodes what appendRecord appends; the filter must end before end.
func (f *filterRecord) decodeRecord(p []byte, end uint64) error {
	u := binary.LittleEndian
	f.chunks, f.checksum, f.offset, f.words = u.Uint32(p), u.Uint32(p[4:]), u.Uint64(p[8:]), u.Uint64(p[16:])
	// Compared before lengths are added: the numbers may be anything.
	if f.offset > end || f.words > (end-f.offset)/8 || f.words == 0 || f.words > math.MaxInt32 || f.chunks == 0 {
		return fmt.Errorf("filter of %d words at %d for %d chunks", f.words, f.offset, f.chunks)
	}
	return nil
}

// decodeFilters decodes the section of filters. Filters of an unknown kind are left out: gets are
// slower without them, and right.
func (d *directory) decodeFilters(p []byte, end uint64) error {
	if len(p) < 8 || binary.LittleEndian.Uint32(p) != filterWords {
		return nil
	}
	n, p := binary.LittleEndian.Uint32(p[4:]), p[8:]
	// Before memory is taken for them: the number may be anything.
	if uint64(n) > uint64(len(p))/filterRecordSize {
		return fmt.Errorf("%d filters in %d bytes", n, len(p))
	}
	d.filters = make([]filterRecord, n)
	for i := range d.filters {
		if err := d.filters[i].decodeRecord(p[i*filterRecordSize:], end); err != nil {
			return err
		}
	}
	return nil
}

// writeFilter writes the filter of the chunks that have none yet. end says that no chunk follows.
func (w *Writer) writeFilter(end bool) error {
	if w.unfiltered == 0 || w.cfg.NoFilter {
		return nil
	}
	// Chunks may have only older versions, and so no key. A filter without words would say that it
	// has every key, and a reader refuses it.
	n := max(bloomWords(len(w.hashes)), 1)
	// Chunks begin on pages, so a filter between two of them fills whole pages.
	if !end {
		n = (n + pageWords - 1) / pageWords * pageWords
	}
	// With Room: Encrypt puts the tag of the last page behind it for a moment.
	words := make(bloom, 8*n, 8*n+chunk.Room)
	for _, h := range w.hashes {
		words.addHash(h)
	}
	w.hashes = w.hashes[:0]
	f := filterRecord{chunks: w.unfiltered, offset: uint64(w.offset), words: uint64(n)}
	w.unfiltered = 0
	var err error
	if w.enc == nil {
		f.checksum = w.owner.ID().Sum(w.offset, words)
	} else if f.tags, err = chunk.EncryptPages(nil, words, crypt.Filter, w.offset, w.enc); err != nil {
		return w.failWith(err)
	}
	w.dir.filters = append(w.dir.filters, f)
	w.dirBytes += filterRecordSize + int64(len(f.tags))
	return w.writeBytes(words)
}

// readFilters reads the filters of the run whose files and directories are
// open: in place where they are mapped.
func (r *Reader) readFilters() error {
	chunks := 0
	for _, f := range r.files {
		for i := range f.dir.filters {
			at := &f.dir.filters[i]
			if chunks += int(at.chunks); chunks > len(r.chunks) {
				return errs.NewCorruption(f.Name(), int64(at.offset), "filter is for chunks that the run doesn't have")
			}
			s, err := f.readFilter(at)
			if err != nil {
				return err
			}
			// One filter for all chunks stands for itself, so that a get asks it before it searches
			// for the chunk.
			n := int(at.chunks)
			if n == len(r.chunks) {
				n = 1
			}
			for range n {
				r.filters = append(r.filters, s)
			}
		}
	}
	// No filter at all is right (WriterConfig.NoFilter). If only some are there, filterOf would
	// take that of another chunk, and gets would miss keys.
	if chunks < len(r.chunks) && chunks > 0 {
		return errs.NewCorruption(r.files[0].Name(), -1, "filters are for %d of %d chunks", chunks, len(r.chunks))
	}
	return nil
}

// filter is a filter of a run. Its pages are verified or decrypted when they are first needed.
type filter struct {
	words    int             // length
	pages    *pageio.Part    // verifies or decrypts pages
	bloom    bloom           // the filter, if it is in place
	verified pageio.PageBits // pages of bloom that were verified, as pages knows them
}

// mayContain reports whether the filter has a key with this hash. A damaged filter counts as if it
// had every key: the chunks are then searched, and these are right.
func (s *filter) mayContain(hash uint64) bool {
	at := bloomOffset(hash, s.words)
	// The usual case, a verified page, costs one load.
	if s.verified.Test(at / chunk.PageSize) {
		return wordHas(s.bloom[at:], hash)
	}
	word, err := s.pages.Page(at)
	return err != nil || wordHas(word, hash)
}

// readFilter reads and checks one filter. An encrypted one is read later, page by page.
func (f *file) readFilter(at *filterRecord) (filter, error) {
	words := int(at.words)
	if f.Key != nil {
		return filter{words: words, pages: at.newPart(&f.Paged)}, nil
	}
	pages, crc, err := f.SumPart(int64(at.offset), int64(at.words)*8)
	if err != nil {
		return filter{}, err
	}
	// SumPart returns the plain checksum, as it makes those of the pages of the same bytes. What
	// binds it to this file and place is added here.
	if got := crc ^ f.ID.Mask(int64(at.offset)); got != at.checksum {
		pages.Free()
		return filter{}, errs.NewCorruption(f.Name(), int64(at.offset), "filter: checksum %#x, want %#x", got, at.checksum)
	}
	return filter{words: words, pages: pages, bloom: pages.Data(), verified: pages.Verified()}, nil
}

// FilterBytes returns how many bytes of memory the filters take that are neither mapped nor cached.
func (r *Reader) FilterBytes() (n int64) {
	for _, f := range r.files {
		// Else they are in the page cache, or in the Cache, which count them.
		if f.Mapped() != nil || f.Key != nil {
			continue
		}
		for i := range f.dir.filters {
			n += int64(f.dir.filters[i].words) * 8
		}
	}
	return n
}

// IndexBytes returns about how much memory the directories and the bounds of chunks take.
func (r *Reader) IndexBytes() (n int64) {
	const perChunk = 512 // its record, its Chunk and its parsed trailer
	// An estimate will do: it is a metric, and bounds nothing.
	for _, part := range r.parts() {
		for i := range part.chunks {
			n += perChunk + int64(len(part.chunks[i].key))
		}
	}
	return n
}

// MayContain reports whether the run may hold a version of the key, which has this
// hash. False is certain; true is wrong for about 1.5 % of absent keys.
func (r *Reader) MayContain(key []byte, hash uint64) bool {
	f := r.filterOf(key)
	return f == nil || f.mayContain(hash)
}

// filterOf returns the filter that has the key if the run does; nil if there is none. After an
// error of the search there is none, either: Get returns the error.
func (r *Reader) filterOf(key []byte) *filter {
	i, err := 0, error(nil)
	if len(r.filters) > 1 {
		i, err = r.searchNewest(key)
	}
	if err != nil || i >= len(r.filters) {
		return nil
	}
	return &r.filters[i]
}

// tagFilters gives the filters of an encrypted file their tags, which lie in b in the order
// of the filters in the file, one for each page.
func (d *directory) tagFilters(b []byte) error {
	for i := range d.filters {
		f := &d.filters[i]
		n := uint64(pageio.PagesOf(int64(f.words*8))) * crypt.TagSize
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

// newPart reads the filter of an encrypted file.
func (f *filterRecord) newPart(of *pageio.Paged) *pageio.Part {
	return pageio.NewPart(of, crypt.Filter, int64(f.offset), int(f.words)*8, f.tags)
}
