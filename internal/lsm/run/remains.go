package run

import (
	"bytes"
	"encoding/binary"
	"errors"
	"path/filepath"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/chunk"
	"github.com/brockdb/brock/internal/lsm/rangedel"
)

// Remains reads what is left of one file of a run, which may be damaged in any place. It finds the
// chunks by the directory. If that is lost, it searches for trailers that are whole: each says how
// to read the chunk before it. It is used by one goroutine.
type Remains struct {
	f *pageio.File // the file
	origin
	chunks []record // the chunks that were found, in order
	whole  bool     // the directory could be read
	about  []byte   // what it says of the store

	deletes bool        // Next returns range deletes, not entries
	i       int         // next chunk
	at      int64       // offset where the chunk before i ends
	rest    *chunk.Rest // what is left of the chunk that Next is in; nil: it is in none
	n       int         // next entry of rest
	gaps    int         // number of gaps of rest that were returned
	e       entry.Entry // the entry that was returned last
}

// Hole is a part of a file whose entries can't be read.
type Hole struct {
	File           string
	Offset, Length int64         // where it is in the file
	MaxVersion     entry.Version // greatest version of the lost entries; 0: not known
	RangeDeletes   bool          // only range deletes are lost, and no entries
}

// pieceBytes is how much of a file is searched at a time.
const pieceBytes = 1 << 20

// OpenRemains opens file number num of a run. A file with another file key id than keyID is damage;
// the zero KeyID stands for not known, and accepts the file key id that the file has. OpenRemains
// returns an error only if the file can't be opened or has nothing of a run of this store.
func OpenRemains(cfg OpenConfig, num entry.FileNum, stamp entry.Version, keyID crypt.FileKeyID) (*Remains, error) {
	name := filename.Of(filename.Run, num)
	f, err := cfg.Files.Open(filepath.Join(cfg.Dir, name), pageio.Options{NoMap: true})
	if err != nil {
		return nil, err
	}
	r := &Remains{f: f}
	if keyID.IsZero() {
		keyID = cfg.findKeyID(f, num)
	}
	if r.origin, err = cfg.newOrigin(num, keyID); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if f.Size() >= int64(r.footerSize()) {
		if dir, _, err := r.readDirectory(f, f.Size()); err == nil {
			r.whole, r.chunks, r.about = true, dir.chunks, dir.about
		}
	}
	if !r.whole {
		r.findChunks()
	}
	if len(r.chunks) == 0 {
		err := errs.NewCorruption(name, -1, "no chunk of a run of this store can be found")
		return nil, errors.Join(err, f.Close())
	}
	for i := range r.chunks {
		c := &r.chunks[i]
		if c.Layout.Stamp = stamp; stamp != 0 {
			c.Stats = c.Stats.Stamped(stamp)
		}
	}
	return r, nil
}

// findChunks finds the chunks by their trailers.
func (r *Remains) findChunks() {
	buf := make([]byte, pieceBytes)
	for at := int64(0); at+chunk.PageSize <= r.f.Size(); at += int64(len(buf)) {
		// A piece may end within a trailer: addChunkBefore then reads the rest.
		buf = buf[:min(pieceBytes, (r.f.Size()-at)&^(chunk.PageSize-1))]
		r.f.ReadLeft(buf, at)
		for off := 0; off < len(buf); off += chunk.PageSize {
			begin := at + int64(off)
			if size := chunk.TrailerSize(buf[off:], begin, r.Key != nil); size > 0 && int64(size) <= r.f.Size()-begin {
				r.addChunkBefore(buf[off:], begin, size)
			}
		}
	}
}

// addChunkBefore adds the chunk before off, if a whole trailer of size bytes lies at off. b has the
// bytes from off on, perhaps not all of the trailer.
func (r *Remains) addChunkBefore(b []byte, off int64, size int) {
	if size > len(b) {
		b = make([]byte, size)
		r.f.ReadLeft(b, off)
	}
	l, stats, ok := chunk.FindTrailer(b[:size], &r.Paged, off)
	if !ok {
		return
	}
	n, begin := len(r.chunks), off-int64(l.TrailerStart())
	if n > 0 && begin < r.chunks[n-1].Offset+int64(r.chunks[n-1].Layout.Size()) {
		return // bytes that look like a trailer in those of another
	}
	sum := binary.LittleEndian.Uint32(b)
	r.chunks = append(r.chunks, record{Chunk: chunk.Chunk{Layout: l, Offset: begin, TrailerChecksum: sum}, Stats: stats})
	// The directory would have the first key; without it the first entry does.
	if rest := r.rescueChunk(&r.chunks[n]); rest.Len() > 0 {
		rest.Entry(0, &r.e)
		r.chunks[n].key = bytes.Clone(r.e.Key)
	}
}

// Rewind goes back to the beginning. Next then returns entries, or else range deletes: see Span.
func (r *Remains) Rewind(deletes bool) {
	r.deletes, r.i, r.at, r.rest = deletes, 0, 0, nil
}

// Next returns the next entry, or a hole where entries are lost. At the end both are nil. The next
// call overwrites the entry. The first call is as after Rewind(false).
func (r *Remains) Next() (*entry.Entry, *Hole) {
	for {
		switch {
		case r.rest == nil:
			if hole, done := r.openNextChunk(); hole != nil || done {
				return nil, hole
			}
		// Gaps come in their place, between the entries around them.
		case r.gaps < len(r.rest.Gaps) && r.rest.Gaps[r.gaps] == r.n:
			r.gaps++
			return nil, r.holeOf(r.i - 1)
		case r.n < r.rest.Len():
			r.rest.Entry(r.n, &r.e)
			r.n++
			// The keys of a chunk are not known before if the directory is lost.
			if len(r.e.Key) > 0 && isRangeDeletes(r.e.Key) == r.deletes {
				return &r.e, nil
			}
		default:
			r.rest = nil
		}
	}
}

// openNextChunk reads the next chunk. It returns a hole if chunks before it are lost.
func (r *Remains) openNextChunk() (hole *Hole, done bool) {
	from, to := r.at, r.f.Size()
	if done = r.i == len(r.chunks); !done {
		to = r.chunks[r.i].Offset
	}
	// Between two chunks that were found by their trailers, others may be lost.
	if !r.whole && from < to {
		r.at = to
		return &Hole{File: r.Name, Offset: from, Length: to - from}, false
	}
	if done {
		return nil, true
	}
	c := &r.chunks[r.i]
	r.i, r.at = r.i+1, to+int64(c.Layout.Size())
	if len(c.key) == 0 || isRangeDeletes(c.key) == r.deletes {
		r.rest, r.n, r.gaps = r.rescueChunk(c), 0, 0
	}
	return nil, false
}

// rescueChunk reads a chunk.
func (r *Remains) rescueChunk(c *record) *chunk.Rest {
	c.File = &r.Paged
	return chunk.Rescue(&c.Chunk, c.key, r.f.ReadLeft)
}

// holeOf is the hole of a damaged chunk.
func (r *Remains) holeOf(i int) *Hole {
	c := &r.chunks[i]
	return &Hole{
		File: r.Name, Offset: c.Offset, Length: int64(c.Layout.Size()),
		MaxVersion: c.MaxVersion, RangeDeletes: len(c.key) > 0 && isRangeDeletes(c.key),
	}
}

// Span returns the range delete that the entry e of Remains stands for. ok is false if e is no
// range delete.
func Span(e *entry.Entry) (t rangedel.Delete, ok bool) {
	if !isRangeDeletes(e.Key) {
		return t, false
	}
	return spanOf(e)
}

// Entries returns how many entries the chunks had, with those that are lost: entries of keys, and
// spans, which stand for range deletes.
func (r *Remains) Entries() (entries, spans uint64) {
	for i := range r.chunks {
		if c := &r.chunks[i]; len(c.key) > 0 && isRangeDeletes(c.key) {
			spans += c.Entries
		} else {
			entries += c.Entries
		}
	}
	return entries, spans
}

// MaxVersion returns the greatest version in the chunks. Without a stamp, 0 says that a
// transaction wrote the file before its commit, so its entries have no version.
func (r *Remains) MaxVersion() (v entry.Version) {
	for i := range r.chunks {
		v = max(v, r.chunks[i].MaxVersion)
	}
	return v
}

// At returns the offsets in the file between which the entry that Next has returned lies, and
// those of the trailer of its chunk.
func (r *Remains) At() (from, to, trailer, end int64) {
	c := &r.chunks[r.i-1]
	begin := c.Offset
	lo, hi := r.rest.Span(r.n - 1)
	return begin + int64(lo), begin + int64(hi), begin + int64(c.Layout.TrailerStart()), begin + int64(c.Layout.Size())
}

// First returns a key that is not greater than any of the file's; nil: none is known.
func (r *Remains) First() []byte {
	if !r.whole {
		return nil
	}
	return r.chunks[0].key
}

// Whole reports whether the directory is there. Without it chunks may be missing.
func (r *Remains) Whole() bool { return r.whole }

// Plain reports whether nothing of the file is encrypted.
func (r *Remains) Plain() bool { return r.Key == nil }

// About returns what the file says of the store: see WriterConfig.About. It is nil if the file says
// nothing. last is true for the last file of a run.
func (r *Remains) About() (about []byte, last bool) {
	if len(r.about) < 8 {
		return nil, false
	}
	return r.about[8:], r.about[0]&aboutLast != 0
}

// Close closes the file.
func (r *Remains) Close() error { return r.f.Close() }

// Owner returns the UUID of the store that a run file names at its beginning or in its footer.
func Owner(files *pageio.Files, path string, num entry.FileNum) (uuid [16]byte, ok bool) {
	f, err := files.Open(path, pageio.Options{NoMap: true})
	if err != nil {
		return uuid, false
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, headerSize)
	f.ReadLeft(head, 0)
	if uuid, ok = chunk.OwnerOf(head, num); ok {
		return uuid, true
	}
	o := chunk.Owner{UUID: [16]byte(head[headerUUID:]), Num: num}
	if checkHeader(head, &o) == nil {
		return o.UUID, true
	}
	if ft := findFooter(f, num); ft != nil {
		return ft.Owner.UUID, true
	}
	return uuid, false
}

// findKeyID returns the file key id that the header of a file, or else its footer, names; zero, if
// it is plain or nothing is left of either.
func (cfg *OpenConfig) findKeyID(f *pageio.File, num entry.FileNum) crypt.FileKeyID {
	page := make([]byte, headerSize)
	if f.ReadFull(page, 0) == nil && checkHeader(page, &chunk.Owner{UUID: cfg.UUID, Num: num}) == nil {
		keyID, err := crypt.PageKeyID(page)
		// With another key than the page was made with, all of the file would look damaged.
		if o, failed := cfg.newOrigin(num, keyID); err == nil && failed == nil && o.Key != nil && o.Key.CheckPage(page) == nil {
			return keyID
		}
	}
	if ft := findFooter(f, num); ft != nil && ft.Owner.UUID == cfg.UUID {
		return ft.keyID()
	}
	return crypt.FileKeyID{}
}
