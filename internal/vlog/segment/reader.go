package segment

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/codec"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/offheap"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/vfs"
)

// How the records of a segment are read, by their handles or all in order.

const (
	granule = 64 // bytes; at most one record of 64 bytes or more begins in each

	mostTouched = 2048 // bytes of a record to prefetch; processors fetch the rest by themselves
	beforeValue = 64   // bytes before the value, in most records
)

// Reader reads the records of one segment by handle. Any number of goroutines may use it.
// Where files can be mapped, values of plain segments are slices of the mapping: they are
// valid until Close, and must not be changed.
type Reader struct {
	// The fields that each read needs come first, so that they lie in few cache lines.
	file     *pageio.File
	plain    []byte           // the mapping of a plain file; nil: the file is encrypted, or not mapped
	keys     *crypt.Decrypter // nil: the file is plain
	end      *atomic.Int64    // shared with the writer while the segment grows
	stamp    entry.Version    // of all records, whose version is 0 in the file; 0 = they have their own
	verified pageio.Bits      // by granule: the record that begins there was verified in this epoch
	name     string
	id       checksum.Identity
	header   Header
}

// OpenOptions says how much of a segment is read, and how.
type OpenOptions struct {
	End   int64           // end of the last frame, as it was recorded; 0 = the file's length
	Limit int64           // how long a segment that still grows becomes at most, until it is opened anew; 0 = it doesn't grow
	NoMap bool            // use no mapping
	Stamp entry.Version   // of all records, whose version is 0 in the file; 0 = they have their own
	KeyID crypt.FileKeyID // as it was recorded for the file: another one is damage; zero = it is plain

	FramesOnly bool // no record is read by its handle: memory does not follow the file's length

	end *atomic.Int64 // shared with the writer of the segment; nil: there is none in this process
}

// Open opens the segment of this kind and number and checks its header. It returns
// an *errs.Corruption if the file is shorter than o.End, or its header isn't its own; and
// errs.ErrKey if the file is encrypted and its key can't be had. With o.Limit another process may be
// writing the segment: call Grow when more than o.End can be read.
func Open(c Config, kind filename.Kind, number entry.FileNum, o OpenOptions) (*Reader, error) {
	r, err := c.openUnread(kind, number, max(o.End, o.Limit), o)
	if err != nil {
		return nil, err
	}
	if !o.FramesOnly {
		r.verified = r.file.Verified(r.file.Size() / granule)
	}
	page, keys, err := c.openPage(r.file, kind, number, o.KeyID)
	if err == nil {
		err = headerError(r.name, r.header.decodeFields(page, o.KeyID))
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	// Bytes of an encrypted file are never shown as they are in the mapping.
	if r.keys = keys; keys == nil {
		r.plain = r.file.Mapped()
	}
	return r, nil
}

// openUnread opens a segment of which size bytes are read at most, 0 = all, before its header is
// looked at.
func (c *Config) openUnread(kind filename.Kind, number entry.FileNum, size int64, o OpenOptions) (*Reader, error) {
	f, err := c.openFile(kind, number, pageio.Options{Size: size, Grows: o.Limit > 0, NoMap: o.NoMap})
	if err != nil {
		return nil, err
	}
	r := &Reader{file: f, end: o.end, stamp: o.Stamp, name: f.Name(), id: c.identity(kind, number), header: Header{Kind: kind, Number: number}}
	if r.end == nil {
		// What lies behind the recorded end doesn't count.
		r.end = new(atomic.Int64)
		r.end.Store(min(cmp.Or(o.End, f.Size()), f.Size()))
	}
	return r, nil
}

// Grow lets a reader of a segment that grows read up to end. It returns false if that is beyond what the
// reader has mapped: open the segment anew then. One goroutine at a time may call it.
func (r *Reader) Grow(end int64) bool {
	if end > r.file.Size() {
		return false
	}
	r.end.Store(max(end, r.end.Load()))
	return true
}

// openPage reads and checks the header page of an open file, which must name this file key id, as
// it was recorded for the file. It returns what decrypts the file; nil: it is plain. It returns an
// *errs.Corruption if the page is not that of the file.
func (c *Config) openPage(f *pageio.File, kind filename.Kind, number entry.FileNum, keyID crypt.FileKeyID) (p []byte, d *crypt.Decrypter, err error) {
	if f.Size() < HeaderSize {
		return nil, nil, errs.NewCorruption(f.Name(), -1, "%d bytes long, want %d", f.Size(), HeaderSize)
	}
	p = make([]byte, HeaderSize)
	if err := f.ReadFull(p, 0); err != nil {
		return nil, nil, err
	}
	_, d, err = c.checkPage(p, kind, number, &keyID)
	return p, d, headerError(f.Name(), err)
}

// ReadHeader reads the header of a segment. It returns ErrHeader if the file is too short
// for one, or holds something else, and errs.ErrKey if the file is
// encrypted and its key can't be had; see decodeHeader.
func ReadHeader(c Config, kind filename.Kind, number entry.FileNum) (h Header, err error) {
	page, err := pageio.ReadHead(c.FS, c.filePath(kind, number), HeaderSize)
	if err == nil {
		h, _, err = c.decodeHeader(page, kind, number)
	}
	h.Kind, h.Number = kind, number
	if err != nil {
		err = fmt.Errorf("%s: %w", filename.Of(kind, number), err)
	}
	return h, err
}

// headerError reports a header that should have been whole.
func headerError(name string, err error) error {
	if errors.Is(err, ErrHeader) {
		return &errs.Corruption{File: name, Offset: 0, Reason: "header", Err: err}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// ownRecord is the greatest length, in bytes, of values that are read into new memory if they
// are cold: then their pages need not be mapped. For longer values the copy would cost more.
const ownRecord = 64 << 10

// Stored is StoredIn, but a value that needs memory gets new one.
func (r *Reader) Stored(h entry.Handle, key []byte, v entry.Version) (value entry.Stored, err error) {
	return r.StoredIn(nil, nil, h, key, v)
}

// StoredIn returns the value of the record at h, which must be that of version v of key, as
// it is stored: a slice of the mapping, or of other memory. That is dst if its capacity is
// enough, else what from lends, or new memory if from is nil or has none. In an encrypted
// segment it is never a slice of the mapping. Header, key and value are verified when the record
// is read for the first time of an epoch (pageio.BitMemory); without a mapping, every time.
// Every mismatch returns an *errs.Corruption.
func (r *Reader) StoredIn(dst []byte, from Lender, h entry.Handle, key []byte, v entry.Version) (value entry.Stored, err error) {
	// The handle comes from a file that may be damaged: its numbers are checked
	// before anything is read.
	end := uint64(r.end.Load())
	if h.Offset&7 != 0 || h.Offset < HeaderSize || h.Offset > end || h.Length > end-h.Offset {
		return value, errs.NewCorruption(r.name, int64(h.Offset), "record with %d bytes of value, the segment ends at %d", h.Length, end)
	}
	off := int64(h.Offset)
	data := r.plain
	if data == nil {
		return r.readStored(dst, from, h, key, v)
	}
	defer pageio.Guard(pageio.Arm(), &err, r.name)
	rec := data[off:end]
	// The pages of a record that was verified in this epoch are most likely in memory still.
	if r.verified.Test(off / granule) {
		// Load the value while the reader waits for the header.
		prefetchRecord(rec, h.Length)
		if value, ok := entry.StoredAgain(rec, key, v-r.stamp, h.Length); ok {
			pageio.Touch(value.Bytes) // a page that can't be read is an error here
			return value, nil
		}
		return r.decodeRecord(rec, off, h.Length, key, v, false)
	}
	bound := int(min(r.recordBound(key, h.Length), end-h.Offset))
	// The pages are not known to be in memory. For a short value a read costs less than the page
	// fault.
	if h.Length <= ownRecord && !r.file.Known(off, bound) {
		return r.readStored(dst, from, h, key, v)
	}
	prefetchRecord(rec, h.Length)
	if h.Length > ownRecord {
		r.file.Await(off, int64(bound))
	}
	// Read errors come here, as errors; in the mapping they would be faults.
	if err := r.file.Prime(off, bound); err != nil {
		return value, err
	}
	if value, err = r.decodeRecord(rec, off, h.Length, key, v, true); err != nil {
		return value, err
	}
	// Two smaller records may begin in one granule: these are verified each time.
	if h.Length+uint64(len(key))+entry.HeaderSize >= granule {
		r.verified.Set(off / granule)
	}
	return value, nil
}

// prefetchRecord prefetches a record with a value of n bytes, or its first 2 KB, into the caches of the
// processor. The value is then loaded while the reader waits for the record's header.
func prefetchRecord(rec []byte, n uint64) {
	offheap.Prefetch(rec[:min(n+beforeValue, mostTouched, uint64(len(rec)))])
}

// readStored is StoredIn by a read. It verifies the copy.
func (r *Reader) readStored(dst []byte, from Lender, h entry.Handle, key []byte, v entry.Version) (value entry.Stored, err error) {
	off := int64(h.Offset)
	n, err := r.checkPlace(off, r.recordBound(key, h.Length))
	if err != nil {
		return value, err
	}
	m := recordMemory(dst, from, h.Length, n+crypt.TagSize)
	defer m.returnMemory()
	if err := r.file.ReadCopy(m.record[:n], off); err != nil {
		return value, err
	}
	_, rec, err := r.openRecord(m.record[:n], off)
	if err == nil {
		err = r.checkMatch(&rec, off, h.Length, key, v)
	}
	if err != nil {
		return value, err
	}
	return m.locateValue(dst, rec.Stored()), nil
}

// appendRecord appends the record at offset, of at most bound bytes, to dst by pread, and verifies it
// there. So the bytes that the caller writes elsewhere are the very ones that were verified, even
// if the file changes. The record is in its plain form; if the segment is encrypted, its checksums
// are zeros. After an error dst is as before.
func (r *Reader) appendRecord(dst []byte, offset int64, bound uint64) ([]byte, entry.Record, error) {
	n, err := r.checkPlace(offset, bound)
	if err != nil {
		return dst, entry.Record{}, err
	}
	at := len(dst)
	dst = slices.Grow(dst, n+crypt.TagSize) // room to decrypt it
	// Never from the mapping: a page of it that was verified may be damaged since.
	if err := r.file.ReadFull(dst[at:at+n], offset); err != nil {
		return dst, entry.Record{}, err
	}
	plain, rec, err := r.openRecord(dst[at:at+n], offset)
	if err != nil {
		return dst, rec, err
	}
	dst = dst[:at+len(plain)]
	if r.keys != nil { // it may begin behind that place
		copy(dst[at:], plain)
		rec, err = entry.DecodeRecord(dst[at:])
	}
	return dst, rec, err
}

// Touch prefetches the record at h, or its first 2 KB, into the caches of the processor, if
// it was verified in this epoch or its pages are known to be in memory. For other records it
// does nothing and returns false.
func (r *Reader) Touch(h entry.Handle) bool {
	data := r.file.Mapped()
	off := h.Offset
	// The handle was not checked: its numbers may be wrong.
	if off >= uint64(len(data)) || h.Length > uint64(len(data))-off {
		return false
	}
	// A page that is not in memory would fault, and a fault takes as long as a read.
	if !r.verified.Test(int64(off/granule)) && !(r.file.Resident(int64(off)) && r.file.Resident(int64(off+h.Length))) {
		return false
	}
	prefetchRecord(data[off:], h.Length)
	return true
}

// RecordRange returns the part of the file in which the record of key at h lies, or a little more.
// It is empty if the handle can't be right.
func (r *Reader) RecordRange(h entry.Handle, key []byte) (off, n int64) {
	end := uint64(r.end.Load())
	if h.Offset > end || h.Length > end-h.Offset {
		return 0, 0 // the read of the record will return the error
	}
	return int64(h.Offset), int64(min(r.recordBound(key, h.Length), end-h.Offset))
}

// Ahead is pageio.File.Ahead.
func (r *Reader) Ahead(off, n int64) (asked int64) { return r.file.Ahead(off, n) }

// recordBound returns an upper bound of the length in the file of a record with this key and a
// value of this length.
func (r *Reader) recordBound(key []byte, value uint64) uint64 {
	const extension, padding = 24, 7
	pieces := (value + entry.PieceSize - 1) / entry.PieceSize
	n := entry.HeaderSize + extension + uint64(len(key)) + 4*pieces + value + padding
	if r.keys != nil {
		n = entry.EncryptedBound(n, value)
	}
	return n
}

// decodeRecord decodes the record that rec begins with, and checks that it is what the handle was
// made for. With verify, it checks the checksums, too.
func (r *Reader) decodeRecord(rec []byte, off int64, length uint64, key []byte, v entry.Version, verify bool) (entry.Stored, error) {
	d, err := entry.DecodeRecord(rec)
	if err != nil {
		return entry.Stored{}, r.damagedRecord(off, err)
	}
	if err := r.checkMatch(&d, off, length, key, v); err != nil {
		return entry.Stored{}, err
	}
	if verify {
		if err := r.verifyRecord(&d, rec, off); err != nil {
			return entry.Stored{}, err
		}
	}
	return d.Stored(), nil
}

// checkMatch checks that the record at off has the key, version and length that the handle was made
// for. A sound record of another key is damage, too: the handle is wrong.
func (r *Reader) checkMatch(d *entry.Record, off int64, length uint64, key []byte, v entry.Version) error {
	if d.Version != v-r.stamp || uint64(d.ValueSize) != length || !bytes.Equal(d.Key, key) {
		return errs.NewCorruption(r.name, off, "record of another key, version %d with %d bytes of value, want version %d with %d",
			r.stamp+d.Version, d.ValueSize, v, length)
	}
	return nil
}

// verifyRecord checks the checksums of the record d, with which the bytes rec at off begin.
func (r *Reader) verifyRecord(d *entry.Record, rec []byte, off int64) error {
	if !d.VerifyHead(rec, r.id, off) {
		return errs.NewCorruption(r.name, off, "record: checksum of header and key does not match")
	}
	if !d.VerifyValue(rec, r.id, off) {
		return errs.NewCorruption(r.name, off, "record: checksum of the value does not match")
	}
	return nil
}

// Decode decodes v, the stored value of a record at offset of this segment, into dst if
// cap(dst) is enough, else into new memory. v must have been verified. It returns an
// *errs.Corruption if v does not decode; that wraps errs.ErrFormat if this release does not
// know the codec.
func (r *Reader) Decode(coder *codec.Coder, dst []byte, v entry.Stored, offset uint64) (value []byte, err error) {
	defer pageio.Guard(pageio.Arm(), &err, r.name)
	if !v.Codec.Known() {
		err = fmt.Errorf("%w: %v", errs.ErrFormat, v.Codec)
	} else {
		value, err = coder.Decode(dst, v.Codec, v.Bytes, int(v.Raw))
	}
	if err != nil {
		return nil, &errs.Corruption{File: r.name, Offset: int64(offset), Reason: "compressed value", Err: err}
	}
	return value, nil
}

// Scan calls fn for each record, in order, with its offset. The record is valid until fn
// returns. Every frame is verified before its records are shown; if values is set, so are
// values with their own checksum. In an encrypted segment a value in pieces is not in the
// record: get it by ValueOf. Scan stops at the first error. A value segment must end with its seal.
func (r *Reader) Scan(values bool, fn func(off int64, rec *entry.Record) error) error {
	s := r.Frames(values)
	for {
		start := s.At().Offset
		found, err := s.Next()
		if err == nil {
			err = r.eachRecord(&found, fn)
		}
		// A frame that the writer of a journal has retracted meanwhile is no damage.
		retracted := errors.Is(err, errs.ErrCorrupt) && r.header.Kind == filename.Journal && start >= r.end.Load()
		if retracted || errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// eachRecord calls fn for each record of a frame. It sets a guard, as a big payload lies in the
// mapping.
func (r *Reader) eachRecord(found *Found, fn func(off int64, rec *entry.Record) error) (err error) {
	if found.Header.Kind != frame.Group {
		return nil
	}
	defer pageio.Guard(pageio.Arm(), &err, r.name)
	var rec entry.Record
	for records := found.Header.Walk(found.Payload, found.Offset+frame.HeaderSize); records.More(); {
		off := records.At()
		if err := records.Next(&rec); err != nil {
			return r.damagedRecord(off, err)
		}
		if err := fn(off, &rec); err != nil {
			return err
		}
	}
	return nil
}

// Header is the segment's header.
func (r *Reader) Header() Header { return r.header }

// End is the offset at which the last frame ends now.
func (r *Reader) End() int64 { return r.end.Load() }

// Held is pageio.File.Held of the segment's file.
func (r *Reader) Held() vfs.File { return r.file.Held() }

// Close releases the file and its mapping; no value may be used afterwards.
func (r *Reader) Close() error {
	// Bits before the mapping: they describe its pages.
	r.verified.Free()
	r.plain = nil
	return r.file.Close()
}
