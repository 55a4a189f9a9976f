package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/vfs"
)

// Writer appends frames to one segment. It is used by one goroutine at a time.
// Other goroutines may call End, and use Readers that OpenReader returned. After an
// error of Append or Seal call only CutBack and Close; after an error of Sync,
// CutBack or Retract only Close. Two errors of Append leave the Writer as it was:
// errs.ErrInvalid, and an error of reading Frame.Value.
type Writer struct {
	cfg       Config
	header    Header
	path      string
	f         vfs.File
	id        checksum.Identity
	end       *atomic.Int64 // end of the last whole frame, shared with readers
	allocated int64         // the file's length, as far as is known
	at        Place         // behind the last frame
	before    Place         // the end before the last Append, for Retract
	hinted    int64         // offset up to which the system was asked to write back
	ended     bool          // nothing can be appended

	encrypt *frame.Encrypter // nil: the file is plain
	// Of the frame that is being encrypted:
	ahead int64 // its Frame.Ahead
	whole int64 // offset in the file where it ends

	frameHeader [frame.HeaderSize]byte
	vec         [][]byte // what the next write consists of; kept to allocate it once
}

// Create makes the file of a new segment and writes its header; if that fails,
// there is no file.
func Create(c Config, h Header) (*Writer, error) {
	path := c.filePath(h.Kind, h.Number)
	f, err := c.FS.Create(path)
	if err != nil {
		return nil, err
	}
	w := &Writer{cfg: c, header: h, path: path, f: f, id: c.identity(h.Kind, h.Number), end: new(atomic.Int64),
		allocated: HeaderSize}
	page := make([]byte, HeaderSize)
	e, keyID, err := c.newEncrypter(h.Kind, h.Number)
	if err == nil {
		w.header.KeyID = keyID
		w.at = w.header.FirstPlace()
		err = w.header.encodeHeader(page, c.UUID, e)
	}
	if e != nil {
		w.encrypt = frame.NewEncrypter(e, w.id, w.writeEncrypted)
	}
	if err == nil {
		_, err = f.WriteAt(page, 0)
	}
	if err != nil {
		err = errors.Join(err, f.Close())
		_ = c.FS.Remove(path) // or the next Open does
		return nil, err
	}
	w.countWritten(HeaderSize)
	w.end.Store(HeaderSize)
	return w, nil
}

// OpenReader opens the segment that w writes, whose length will never pass
// limit. The reader sees every frame that Append has returned for.
func (w *Writer) OpenReader(limit int64, noMap bool) (*Reader, error) {
	return Open(w.cfg, w.header.Kind, w.header.Number, OpenOptions{Limit: limit, NoMap: noMap, KeyID: w.header.KeyID, end: w.end})
}

// countWritten counts bytes that were written.
func (w *Writer) countWritten(n int) {
	if w.cfg.Written != nil {
		w.cfg.Written.Add(int64(n))
	}
}

// Frame is what Append writes. Append places the records of Payload, which must not be changed
// meanwhile.
type Frame struct {
	frame.Content
	Transactions uint16 // in the payload; 0: it holds values only
	Skipped      uint64 // versions right before the first one that no commit has
	Unsynced     uint64 // frames before this one that are not known to be durable
	// fill the file with zeros behind the frame up to this offset, if it ends before
	Ahead int64

	header frame.Header
}

// Append writes one frame at the end with one write, and returns the offset of
// its first payload byte; the slices of the payload follow each other there.
// Readers may read it as soon as Append returns. A payload of records
// that aren't whole is refused with errs.ErrInvalid before anything is written.
//
// With f.Ahead the same write brings zeros, for later frames to overwrite. A sync of those
// need not record a new length or new blocks, as it must after fallocate(2); and
// where Ahead is a multiple of BlockSize, the system keeps the file in large pages
// (docs/adr, 5). If the disk is too full for the zeros, the file stays shorter.
func (w *Writer) Append(f Frame) (payload int64, err error) {
	if w.ended {
		return 0, fmt.Errorf("%w: append to a sealed segment", errs.ErrInvalid)
	}
	start := w.at.Offset
	if err := w.makeHeader(&f, start+frame.HeaderSize); err != nil {
		return 0, err
	}
	if w.encrypt != nil {
		w.ahead, w.whole = f.Ahead, start+f.header.Size
		err = w.encrypt.EncryptFrame(&f.header, &f.Content, start, w.at.Tag)
	} else {
		err = w.writePlain(&f, start)
	}
	if err != nil {
		return 0, fmt.Errorf("write %s at %d: %w", w.Name(), start, err)
	}
	// State changes only after the write: after an error that leaves nothing behind, the next
	// Append takes the same place and number.
	w.before = w.at
	w.at.passFrame(&f.header, f.Totals)
	// Readers see the frame from here on.
	w.end.Store(w.at.Offset)
	w.hintWriteback()
	return start + frame.HeaderSize, nil
}

// writebackEvery is how many bytes are appended between two hints to write back.
const writebackEvery = 4 << 20

// hintWriteback asks the system to write whole blocks to the disk while the segment grows, so that a
// sync is short. The last block would be written again with the next frame.
func (w *Writer) hintWriteback() {
	if to := w.at.Offset / BlockSize * BlockSize; to-w.hinted >= writebackEvery {
		w.f.StartWriteback(w.hinted, to-w.hinted)
		w.hinted = to
	}
}

// makeHeader gives the records of f their versions and, in a plain segment, checksums. Then it
// makes the header. offset is where the payload begins.
func (w *Writer) makeHeader(f *Frame, offset int64) error {
	size, err := f.Measure(w.encrypt != nil)
	h := &f.header
	if err == nil && w.encrypt == nil {
		h.PayloadSum, err = f.Place(w.id, offset)
		h.PayloadSum ^= w.id.Mask(offset)
	}
	if err != nil {
		return err
	}
	if size > frame.MaxSize || size&7 != 0 || f.Totals.Records > math.MaxUint32 {
		return fmt.Errorf("%w: frame of %d bytes and %d records", errs.ErrInvalid, size, f.Totals.Records)
	}
	h.Size, h.Kind, h.Transactions, h.Records = size, f.Kind, f.Transactions, uint32(f.Totals.Records)
	h.Chain, h.FirstVersion, h.Number = w.at.Sum, f.Totals.Min, w.at.Number+1
	h.Skipped = uint32(f.Skipped)
	// A number too large for the field becomes one that proves nothing, see frame.Header.Durable.
	h.Unsynced = uint32(min(f.Unsynced, math.MaxUint32))
	return nil
}

// writePlain writes the frame f at start.
func (w *Writer) writePlain(f *Frame, start int64) error {
	h := &f.header
	h.Put(w.frameHeader[:], w.id, start)
	// One write for all: a torn frame is found by its checksums, wherever it is torn.
	w.vec = append(append(w.vec[:0], w.frameHeader[:]), f.Payload...)
	whole := h.Size - int64(f.Missing)
	err := w.writeVec(start, whole, f.Ahead-start-h.Size, f.Ahead)
	if err == nil && f.Missing > 0 {
		w.allocated = max(w.allocated, start+h.Size) // also if less is written, which Sync cuts off
		// Not in one write, and it needn't be: readers see the frame when end moves, and after a
		// crash the value's checksum fails.
		err = w.writeRest(f.Value, f.Missing, start+whole)
	}
	return err
}

// writeVec writes vec, which has whole bytes, at off. If the file ends before ahead, it writes
// behind zeros after that, with the same call. A disk without room for the zeros is no error.
func (w *Writer) writeVec(off, whole, behind, ahead int64) error {
	if ahead > w.allocated {
		for n := behind; n > 0; n -= int64(len(zeros)) {
			w.vec = append(w.vec, zeros[:min(n, int64(len(zeros)))])
		}
	}
	n, err := w.f.WriteVec(w.vec, off)
	w.countWritten(n)
	// Keep no reference to the caller's records.
	clear(w.vec)
	switch {
	case err == nil && int64(n) < whole:
		// A file system may write less without an error. The frame would be torn.
		err = fmt.Errorf("short write: %d of %d bytes", n, whole)
	case int64(n) >= whole && vfs.IsNoSpace(err):
		err = nil // only zeros are missing
	}
	w.allocated = max(w.allocated, off+int64(n))
	return err
}

// writeEncrypted writes a part of an encrypted frame, and the zeros
// that follow the frame with its end.
func (w *Writer) writeEncrypted(b []byte, off int64) error {
	w.vec = append(w.vec[:0], b)
	end, ahead := off+int64(len(b)), w.ahead
	if end < w.whole {
		// More of the frame follows, right where the zeros would be.
		ahead = 0
	}
	return w.writeVec(off, int64(len(b)), ahead-end, ahead)
}

// pieceBytes is how much of a large value is in memory at a time, a multiple of
// entry.PieceSize.
const pieceBytes = 256 << 10

// writeRest writes size bytes of value at off.
func (w *Writer) writeRest(value io.Reader, size int, off int64) error {
	buf := make([]byte, min(size, pieceBytes))
	for size > 0 {
		n, err := io.ReadFull(value, buf[:min(size, len(buf))])
		if err != nil {
			return err
		}
		if _, err := w.f.WriteAt(buf[:n], off); err != nil {
			return err
		}
		w.countWritten(n)
		off, size = off+int64(n), size-n
	}
	return nil
}

// Seal appends the seal; nothing can be appended afterwards. The file keeps its
// preallocated rest until the next Sync.
func (w *Writer) Seal(unsynced uint64) error {
	// Totals in the file: opening it need not read the frames.
	payload, err := binary.Append(nil, binary.LittleEndian, w.at.Totals)
	if err == nil {
		_, err = w.Append(Frame{Content: frame.Content{Kind: frame.Seal, Payload: [][]byte{payload}}, Unsynced: unsynced})
	}
	if err != nil {
		return err
	}
	w.forbidAppends()
	return nil
}

// forbidAppends forbids further appends. It drops the Encrypter and its buffers: the file may wait
// long for its sync.
func (w *Writer) forbidAppends() { w.ended, w.encrypt = true, nil }

// Sync makes the file durable, but not its name: the caller syncs the directory.
// A sealed file is cut to its end first.
func (w *Writer) Sync() error {
	if !w.ended {
		// The file still grows: its times don't matter, and a new length is synced with the data.
		return w.f.SyncData()
	}
	if w.allocated > w.at.Offset {
		// Some file systems need disk space to give some back. Zeros behind the seal are
		// never read.
		err := w.f.Truncate(w.at.Offset)
		if err != nil && !vfs.IsNoSpace(err) {
			return err
		}
		w.allocated = w.at.Offset
	}
	return w.f.Sync()
}

// BlockSize is the unit in which a file is best filled and written back.
const BlockSize = pageio.BlockSize

var zeros [64 << 10]byte

// CutBack ends the segment without a seal, after a failed Append or Seal: it
// truncates the file to the end of the last whole frame. Once synced, nothing of
// the one that failed can come back.
func (w *Writer) CutBack() error {
	if err := w.f.Truncate(w.at.Offset); err != nil {
		return err
	}
	// Nothing may follow in this file: a crash before the sync can bring the cut frame back, and
	// Replay would then lose what follows it.
	w.forbidAppends()
	w.allocated = w.at.Offset
	return nil
}

// Retract ends the segment without a seal before the frame of the last Append, as
// CutBack does after a failed one. No reader may have read that frame.
func (w *Writer) Retract() error {
	w.at = w.before
	// Before the file is cut: a reader must not find an end behind which its mapping has no file.
	w.end.Store(w.at.Offset)
	return w.CutBack()
}

// Close closes the file, without a sync. Readers stay usable.
func (w *Writer) Close() error { return w.f.Close() }

// Name is the file's name within its directory.
func (w *Writer) Name() string { return filename.Of(w.header.Kind, w.header.Number) }

// Number is the segment's number.
func (w *Writer) Number() entry.FileNum { return w.header.Number }

// End is where the last whole frame ends.
func (w *Writer) End() int64 { return w.end.Load() }

// Allocated is the length of the file.
func (w *Writer) Allocated() int64 { return w.allocated }

// At is the place behind the last frame.
func (w *Writer) At() Place { return w.at }

// KeyID names the key of the file; zero: it is plain.
func (w *Writer) KeyID() crypt.FileKeyID { return w.header.KeyID }
