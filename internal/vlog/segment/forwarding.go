package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/vfs"
)

// The forwarding table is described in docs/format.md, "Forwarding".
const (
	forwardingBlock = 512 // granules a block
	blockBytes      = forwardingBlock / 8
	rankBytes       = 4
	placeBytes      = 4
	forwardingPage  = 4096 // bytes of an encrypted body under one tag
)

// Move is one record that has a new place.
type Move struct {
	From uint64 // offset in the source
	To   uint64 // offset in the target
}

// ForwardingHeader names the source and the target of a forwarding table: the segment whose records
// were moved, and the one that has them now.
type ForwardingHeader struct {
	Number  entry.FileNum
	Source  entry.FileNum   // the segment that the records were in
	Target  entry.FileNum   // the segment that has them now
	Records uint64          // how many were moved
	KeyID   crypt.FileKeyID // names the file's key, and is drawn by WriteForwarding; zero = it is plain
	blocks  uint64          // of 512 granules of the source, up to the last moved record
}

// Forwarding is a forwarding table: it leads from the places that a segment's records had to those
// that they have now. It is a bit for each granule of the source in which a moved record begins,
// ranks (the number of bits set before each block of 512), and the new places in order: rank by
// table and population count (Jacobson, "Space-efficient Static Trees and Graphs", FOCS 1989). It
// may be used by any number of goroutines, and takes no memory where files can be mapped, unless it
// is encrypted.
type Forwarding struct {
	file   *pageio.File
	header ForwardingHeader
	body   *pageio.Part // ranks, starts and places
}

func (h *ForwardingHeader) rankSize() int64 { return (int64(h.blocks)*rankBytes + 7) &^ 7 }
func (h *ForwardingHeader) bodySize() int64 {
	return h.rankSize() + int64(h.blocks)*blockBytes + int64(h.Records)*placeBytes
}

// fileBytes is the length of the file. An encrypted file ends with the tags of the body's pages.
func (h *ForwardingHeader) fileBytes() int64 {
	n := HeaderSize + h.bodySize()
	if !h.KeyID.IsZero() {
		n += crypt.TagSize * ((h.bodySize() + forwardingPage - 1) / forwardingPage)
	}
	return n
}

// WriteForwarding writes the forwarding table h.Number of these moves, which ascend by From, and
// makes file and name durable. h.Records and h.KeyID are set here. On an error it removes
// what it wrote.
func WriteForwarding(c Config, h ForwardingHeader, moves []Move) (Stats, error) {
	h.Records, h.blocks = uint64(len(moves)), 0
	if n := len(moves); n > 0 {
		h.blocks = moves[n-1].From/granule/forwardingBlock + 1
	}
	page, body, err := h.encodeForwarding(&c, moves)
	if err != nil {
		return Stats{}, err
	}
	path := c.filePath(filename.Forwarding, h.Number)
	// The manifest names the forwarding table after this, and a crash must not lose it.
	f, err := pageio.CreateDurable(c.FS, path, page, body)
	if err == nil {
		if err = f.Close(); err != nil {
			_ = c.FS.Remove(path) // or the next Open does
		}
	}
	if err != nil {
		return Stats{}, fmt.Errorf("write %s: %w", filename.Of(filename.Forwarding, h.Number), err)
	}
	return Stats{Number: h.Number, Size: h.fileBytes(), KeyID: h.KeyID}, nil
}

// encodeForwarding makes the header page and the body, behind which are the body's tags if the file
// is encrypted.
func (h *ForwardingHeader) encodeForwarding(c *Config, moves []Move) (page, body []byte, err error) {
	e, keyID, err := c.newEncrypter(filename.Forwarding, h.Number)
	if err != nil {
		return nil, nil, err
	}
	h.KeyID = keyID
	body = make([]byte, h.fileBytes()-HeaderSize)
	// Offsets are in units of 8 bytes, so 4 bytes hold places up to 32 GiB.
	starts := body[h.rankSize():]
	places := starts[h.blocks*blockBytes:]
	for i, m := range moves {
		g := m.From / granule
		// Two records in one granule would share a bit, and the second would be looked up at the
		// place of the first.
		if m.To%8 != 0 || m.To/8 > math.MaxUint32 || i > 0 && g <= moves[i-1].From/granule {
			return nil, nil, fmt.Errorf("%w: forwarding table of offset %d to %d", errs.ErrInvalid, m.From, m.To)
		}
		starts[g/8] |= 1 << (g % 8)
		binary.LittleEndian.PutUint32(places[i*placeBytes:], uint32(m.To/8))
	}
	rank := uint32(0)
	for b := range h.blocks {
		binary.LittleEndian.PutUint32(body[b*rankBytes:], rank)
		rank += countOnes(starts[b*blockBytes:][:blockBytes])
	}
	page = make([]byte, HeaderSize)
	// An encrypted body has tags instead.
	if e == nil {
		id := c.identity(filename.Forwarding, h.Number)
		binary.LittleEndian.PutUint32(page[8:], id.Sum(HeaderSize, body))
	}
	binary.LittleEndian.PutUint64(page[24:], uint64(h.Source))
	binary.LittleEndian.PutUint64(page[32:], uint64(h.Target))
	binary.LittleEndian.PutUint64(page[40:], h.Records)
	binary.LittleEndian.PutUint64(page[48:], h.blocks)
	if err := finishPage(page, filename.Forwarding, h.Number, c.UUID, e, keyID); err != nil || e == nil {
		return page, body, err
	}
	return page, body, h.encryptBody(e, body)
}

// encryptBody encrypts the body page by page, and puts the tags behind it.
func (h *ForwardingHeader) encryptBody(e *crypt.Encrypter, body []byte) error {
	if _, err := e.Begin(HeaderSize, h.bodySize()); err != nil {
		return err
	}
	return h.eachPage(body, func(page, tag []byte, off int64) error {
		t, err := e.Encrypt(page, page, crypt.Page, off, nil)
		copy(tag, t[:])
		return err
	})
}

// eachPage calls fn for each page of an encrypted body, with its tag and its offset in the file.
func (h *ForwardingHeader) eachPage(body []byte, fn func(page, tag []byte, off int64) error) error {
	body, tags := body[:h.bodySize()], body[h.bodySize():]
	for off := int64(HeaderSize); len(body) > 0; off += forwardingPage {
		n := min(forwardingPage, len(body))
		if err := fn(body[:n], tags[:crypt.TagSize], off); err != nil {
			return fmt.Errorf("page at %d: %w", off, err)
		}
		body, tags = body[n:], tags[crypt.TagSize:]
	}
	return nil
}

// countOnes counts the bits set in whole words.
func countOnes(p []byte) (n uint32) {
	for ; len(p) >= 8; p = p[8:] {
		n += uint32(bits.OnesCount64(binary.LittleEndian.Uint64(p)))
	}
	return n
}

// decodeForwarding reads the header on the page of a file of this length, which checkPage has
// checked, and returns the checksum of the body, which an encrypted file doesn't have. h.KeyID must
// be what the page names.
func (h *ForwardingHeader) decodeForwarding(page []byte, number entry.FileNum, size int64) (sum uint32, err error) {
	h.Number = number
	h.Source = entry.FileNum(binary.LittleEndian.Uint64(page[24:]))
	h.Target = entry.FileNum(binary.LittleEndian.Uint64(page[32:]))
	h.Records = binary.LittleEndian.Uint64(page[40:])
	h.blocks = binary.LittleEndian.Uint64(page[48:])
	// Bounded by the file before they are multiplied, so that a damaged count can't overflow.
	if left := uint64(size - HeaderSize); h.Records > left/placeBytes || h.blocks > left/blockBytes || h.fileBytes() != size {
		return 0, fmt.Errorf("%w: %d records and %d blocks in a file of %d bytes", ErrHeader, h.Records, h.blocks, size)
	}
	return binary.LittleEndian.Uint32(page[8:]), nil
}

// OpenForwarding opens the forwarding table of this number and file key id (zero: it is plain),
// reads it once and checks all of it. It returns an *errs.Corruption if anything is wrong, and
// errs.ErrKey if its key can't be had. An encrypted one is kept in memory.
func OpenForwarding(c Config, number entry.FileNum, keyID crypt.FileKeyID, noMap bool) (*Forwarding, error) {
	f, err := c.openFile(filename.Forwarding, number, pageio.Options{NoMap: noMap || !keyID.IsZero()})
	if err != nil {
		return nil, err
	}
	m := &Forwarding{file: f, header: ForwardingHeader{KeyID: keyID}}
	if err := m.loadBody(c, number); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// loadBody reads and checks header and body.
func (m *Forwarding) loadBody(c Config, number entry.FileNum) (err error) {
	defer pageio.Guard(pageio.Arm(), &err, m.file.Name())
	h := &m.header
	page, d, err := c.openPage(m.file, filename.Forwarding, number, h.KeyID)
	if err != nil {
		return err
	}
	sum, err := h.decodeForwarding(page, number, m.file.Size())
	if err != nil {
		return headerError(m.file.Name(), err)
	}
	if d != nil {
		err = m.decryptBody(d)
	} else {
		err = m.compareChecksum(sum, c.identity(filename.Forwarding, number))
	}
	if err != nil {
		return err
	}
	// Lookup trusts ranks and bits, also those of a file with a right checksum that we wrote
	// wrongly.
	return m.checkRanks()
}

// compareChecksum reads the body of a plain forwarding table and compares its checksum.
func (m *Forwarding) compareChecksum(sum uint32, id checksum.Identity) error {
	body, crc, err := m.file.SumPart(HeaderSize, m.header.bodySize())
	if err != nil {
		return err
	}
	m.body = body
	if got := crc ^ id.Mask(HeaderSize); got != sum {
		return errs.NewCorruption(m.file.Name(), HeaderSize, "checksum is %08x, want %08x", got, sum)
	}
	return nil
}

// decryptBody reads the body of an encrypted forwarding table into memory of its own, and undoes
// encryptBody.
func (m *Forwarding) decryptBody(d *crypt.Decrypter) error {
	body := make([]byte, m.file.Size()-HeaderSize)
	if err := m.file.ReadFull(body, HeaderSize); err != nil {
		return err
	}
	err := m.header.eachPage(body, func(page, tag []byte, off int64) error {
		t := crypt.Tag(tag)
		return d.Decrypt(page, page, &t, crypt.Page, off, 0, nil)
	})
	if err != nil {
		return &errs.Corruption{File: m.file.Name(), Offset: HeaderSize, Reason: "body", Err: err}
	}
	m.body = m.file.PrivatePart(HeaderSize, body[:m.header.bodySize()])
	return nil
}

// checkRanks checks that ranks and bits lead to the places and nowhere else.
func (m *Forwarding) checkRanks() error {
	rank, c := uint32(0), m.Copier()
	for b := range m.header.blocks {
		have, err := c.ranks.Bytes(int64(b)*rankBytes, rankBytes)
		if err == nil && binary.LittleEndian.Uint32(have) != rank {
			err = errs.NewCorruption(m.file.Name(), HeaderSize, "the rank of block %d is not the number of records before it", b)
		}
		if err != nil {
			return err
		}
		bits, err := c.starts.Bytes(m.header.rankSize()+int64(b)*blockBytes, blockBytes)
		if err != nil {
			return err
		}
		rank += countOnes(bits)
	}
	if uint64(rank) != m.header.Records {
		return errs.NewCorruption(m.file.Name(), HeaderSize, "%d records begin in blocks, want %d", rank, m.header.Records)
	}
	return nil
}

// Lookup returns where the record is that began at from in the source; ok is
// false if no such record was moved. A pageio.Guard must be on.
func (m *Forwarding) Lookup(from uint64) (to uint64, ok bool, err error) {
	return m.header.lookupIn(from, m.body, m.body, m.body)
}

// source is what a forwarding table is read from.
type source interface {
	Bytes(off int64, n int) ([]byte, error)
}

// lookupIn is Lookup in the body that has ranks, starts and places.
func (h *ForwardingHeader) lookupIn(from uint64, ranks, starts, places source) (to uint64, ok bool, err error) {
	g := from / granule
	if g/forwardingBlock >= h.blocks {
		return 0, false, nil
	}
	// The record's rank is the block's, and the bits before its own in the block.
	block, word := g/forwardingBlock, g%forwardingBlock/64
	bits, err := starts.Bytes(h.rankSize()+int64(block)*blockBytes, blockBytes)
	if err != nil {
		return 0, false, err
	}
	w := binary.LittleEndian.Uint64(bits[word*8:])
	// No moved record begins here: it was garbage when its segment was collected.
	if w>>(g%64)&1 == 0 {
		return 0, false, nil
	}
	rank := countOnes(bits[:word*8]) + countBelow(w, g%64)
	first, err := ranks.Bytes(int64(block)*rankBytes, rankBytes)
	if err != nil {
		return 0, false, err
	}
	rank += binary.LittleEndian.Uint32(first)
	place, err := places.Bytes(h.placeOffset(int64(rank)), placeBytes)
	if err != nil {
		return 0, false, err
	}
	return 8 * uint64(binary.LittleEndian.Uint32(place)), true, nil
}

// countBelow counts the bits set below bit n.
func countBelow(w, n uint64) uint32 { return uint32(bits.OnesCount64(w & (1<<n - 1))) }

// placeOffset is where in the body the place of the i-th record lies.
func (h *ForwardingHeader) placeOffset(i int64) int64 {
	return h.rankSize() + int64(h.blocks)*blockBytes + i*placeBytes
}

// Copier returns a reader of the forwarding table for code that copies what it reads to a new file:
// it verifies each page in memory of its own, and reads from that. One goroutine uses it.
func (m *Forwarding) Copier() *ForwardingCopy {
	return &ForwardingCopy{header: &m.header, ranks: m.body.Copier(), starts: m.body.Copier(), places: m.body.Copier()}
}

// ForwardingCopy holds one page or two of each part of a forwarding table.
type ForwardingCopy struct {
	header                *ForwardingHeader
	ranks, starts, places *pageio.PartCopy
}

// Lookup is Forwarding.Lookup.
func (c *ForwardingCopy) Lookup(from uint64) (to uint64, ok bool, err error) {
	return c.header.lookupIn(from, c.ranks, c.starts, c.places)
}

// Places calls fn for where each of the records is now.
func (c *ForwardingCopy) Places(fn func(to uint64)) error {
	for i := range int64(c.header.Records) {
		p, err := c.places.Bytes(c.header.placeOffset(i), placeBytes)
		if err != nil {
			return err
		}
		fn(8 * uint64(binary.LittleEndian.Uint32(p)))
	}
	return nil
}

// Verify reads the file again, whatever has become of its name, and compares it with its checksum.
func (m *Forwarding) Verify(c Config) error {
	// A second body on the same file: m stays usable while its bytes are read again.
	again := &Forwarding{file: m.file, header: ForwardingHeader{KeyID: m.header.KeyID}}
	err := again.loadBody(c, m.header.Number)
	if again.body != nil {
		again.body.Free()
	}
	return err
}

// Header is the forwarding table's header.
func (m *Forwarding) Header() ForwardingHeader { return m.header }

// Name is the base name of the file.
func (m *Forwarding) Name() string { return m.file.Name() }

// Held is pageio.File.Held of the forwarding table's file.
func (m *Forwarding) Held() vfs.File { return m.file.Held() }

// Size is the length of the file.
func (m *Forwarding) Size() int64 { return m.file.Size() }

// MemoryBytes returns the memory that the forwarding table takes: 0 unless it is encrypted or not
// mapped.
func (m *Forwarding) MemoryBytes() int64 {
	if m.file.Mapped() != nil {
		return 0
	}
	return int64(len(m.body.Data()))
}

// Close releases the file and its mapping; nothing may be looked up afterwards.
func (m *Forwarding) Close() error {
	if m.body != nil {
		m.body.Free()
	}
	return m.file.Close()
}
