package manifest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/vfs"
)

// The file of a manifest: its header, the frames that hold a snapshot and edits, and the rule that
// tells a torn tail from damage.

const (
	fileMagic     = "BROCKMAN"
	fileVersion   = 2
	fileEncrypted = 3 // version of one whose frames are encrypted
	fileHeader    = 64
	fileSumAt     = 60
)

// manifestIdentity is what the checksums of the manifest num are bound to.
func manifestIdentity(uuid [16]byte, num entry.FileNum) checksum.Identity {
	return checksum.New(uuid, byte(filename.Manifest), uint64(num))
}

// encodeFileHeader makes the header of the manifest num. previous is the last frame of the
// manifest before. The checksum of the header is the Chain of the first frame.
func encodeFileHeader(uuid [16]byte, num entry.FileNum, previous frame.Name, version uint16) []byte {
	p := make([]byte, fileHeader)
	le := binary.LittleEndian
	copy(p, fileMagic)
	le.PutUint16(p[8:], version)
	le.PutUint16(p[10:], fileHeader)
	le.PutUint64(p[16:], uint64(num))
	copy(p[24:40], uuid[:])
	le.PutUint64(p[40:], uint64(previous.File))
	le.PutUint64(p[48:], previous.Number)
	le.PutUint32(p[56:], previous.Sum)
	le.PutUint32(p[fileSumAt:], manifestIdentity(uuid, num).Sum(0, p[:fileSumAt]))
	return p
}

// decodeFileHeader checks the header p of the manifest num. previous is the last frame of the
// manifest before, without its tag; zero: there was none. It returns *errs.Corruption for damage,
// errs.ErrFormat for a later version.
func decodeFileHeader(p []byte, uuid [16]byte, num entry.FileNum) (encrypted bool, previous frame.Name, err error) {
	name := filename.Of(filename.Manifest, num)
	le := binary.LittleEndian
	if len(p) < fileHeader {
		return false, previous, errs.NewCorruption(name, 0, "%d bytes are too short for a header", len(p))
	}
	chain := le.Uint32(p[fileSumAt:])
	if chain != manifestIdentity(uuid, num).Sum(0, p[:fileSumAt]) {
		reason := "the header's checksum is wrong"
		if string(p[:8]) == fileMagic && [16]byte(p[24:40]) != uuid {
			reason = "the file belongs to another store"
		}
		return false, previous, errs.NewCorruption(name, 0, "%s", reason)
	}
	v, size := le.Uint16(p[8:]), le.Uint16(p[10:])
	if v != fileVersion && v != fileEncrypted || size != fileHeader || le.Uint32(p[12:]) != 0 {
		return false, previous, fmt.Errorf("%w: %s has version %d, this release reads %d and %d", errs.ErrFormat, name, v, fileVersion, fileEncrypted)
	}
	previous = frame.Name{File: entry.FileNum(le.Uint64(p[40:])), Number: le.Uint64(p[48:]), Sum: le.Uint32(p[56:])}
	return v == fileEncrypted, previous, nil
}

// firstPlace is where the first frame of the manifest num goes, behind the header p.
func firstPlace(num entry.FileNum, p []byte) frame.End {
	return frame.End{Name: frame.Name{File: num, Sum: binary.LittleEndian.Uint32(p[fileSumAt:])}, Offset: fileHeader}
}

// encodeFrame makes the frame of e at the place at, and returns where the next one goes. A
// nil encryption leaves it plain.
func encodeFrame(id checksum.Identity, enc *encryption, at frame.End, kind frame.Kind, e *layout.Edit) (p []byte, next frame.End, err error) {
	h := frame.Header{
		Kind:   kind,
		Chain:  at.Sum,
		Number: at.Number + 1, // Unsynced is 0: each frame is synced before the next is written
	}
	p = make([]byte, frame.HeaderSize, 512)
	if enc != nil {
		p = append(p, make([]byte, framePrefix)...)
	}
	p = AppendEdit(p, e)
	for len(p)%8 != 0 {
		p = append(p, 0) // shorter than any field, so DecodeEdit can tell it
	}
	if enc != nil {
		// The checksum is of the encrypted bytes, so that recovery needs no keys to find a torn
		// tail.
		payload, err := enc.encryptEdit(p[frame.HeaderSize:], &h, at)
		if err != nil {
			return nil, at, err
		}
		p = append(p[:frame.HeaderSize], payload...)
	}
	finishFrame(p, id, &at, &h)
	return p, at, nil
}

// finishFrame writes the header of the frame p, whose payload begins at p[frame.HeaderSize],
// and moves at to the end of the frame.
func finishFrame(p []byte, id checksum.Identity, at *frame.End, h *frame.Header) {
	h.PayloadSum = id.Sum(at.Offset+frame.HeaderSize, p[frame.HeaderSize:])
	h.Size = int64(len(p))
	h.Put(p, id, at.Offset)
	at.Advance(h)
}

// maxFrame is the length in bytes of the longest frame that Append writes. No more can lie behind
// the good frames: part of one frame that was being written.
const maxFrame = math.MaxInt32

// reader reads the frames of the manifest that super names.
type reader struct {
	f     io.ReaderAt
	size  int64
	super *Super
	name  string            // of the file
	id    checksum.Identity // what checksums are bound to
	enc   *encryption       // nil: frames are plain
	first frame.End         // where the first frame goes
	buf   []byte

	// of the last frame that was read: the tag of the frame before it, as it says; zero in a plain
	// file
	before   crypt.Tag
	previous frame.Name // last frame of the manifest before; zero: there was none
}

// readManifest calls fn with a reader of the manifest in dir that super names. A nil ring wants it
// plain, any other one encrypted.
func readManifest(fsys vfs.FS, dir string, super *Super, ring *crypt.Ring, fn func(r *reader) error) error {
	f, err := fsys.Open(filepath.Join(dir, filename.Of(filename.Manifest, super.Manifest)))
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err == nil {
		err = fn(newReader(f, size, super, ring))
	}
	return errors.Join(err, f.Close())
}

func newReader(f io.ReaderAt, size int64, super *Super, ring *crypt.Ring) *reader {
	num := super.Manifest
	return &reader{f: f, size: size, super: super, name: filename.Of(filename.Manifest, num), id: manifestIdentity(super.UUID, num), enc: newEncryption(ring, super.UUID, num)}
}

// readHeader reads the header, and notes what it says of the frames. Its errors are those of
// decodeFileHeader and of reading.
func (r *reader) readHeader() (encrypted bool, err error) {
	p, err := r.readBytes(0, min(r.size, fileHeader))
	if err != nil {
		return false, fmt.Errorf("read %s: %w", r.name, err)
	}
	if encrypted, r.previous, err = decodeFileHeader(p, r.super.UUID, r.super.Manifest); err == nil {
		r.first = firstPlace(r.super.Manifest, p)
	}
	return encrypted, err
}

// checkHeader is readHeader, and refuses a plain manifest in an encrypted store, and the reverse.
func (r *reader) checkHeader() error {
	encrypted, err := r.readHeader()
	if err == nil && encrypted != (r.enc != nil) {
		err = errs.NewCorruption(r.name, 0, "SUPER and the header disagree on whether the store is encrypted")
	}
	return err
}

// readBytes reads the n bytes at off, which are within the file; they are valid until the
// next call. No more memory is taken than the largest frame that the file has.
func (r *reader) readBytes(off, n int64) ([]byte, error) {
	r.buf = slices.Grow(r.buf[:0], int(n))[:n]
	if got, err := r.f.ReadAt(r.buf, off); got < len(r.buf) {
		if err == nil || errors.Is(err, io.EOF) {
			return nil, errTail // the file lost its end just now
		}
		return nil, err
	}
	return r.buf, nil
}

// errTail says that the file has no whole frame at an offset.
var errTail = fmt.Errorf("%w: the file ends", frame.ErrFrame)

// readFrame reads and checks the whole frame at off.
func (r *reader) readFrame(off int64) (h frame.Header, payload []byte, err error) {
	if r.size-off < frame.HeaderSize {
		return h, nil, errTail
	}
	p, err := r.readBytes(off, frame.HeaderSize)
	if err == nil {
		h, err = frame.Decode(p, r.id, off)
	}
	if err != nil {
		return h, nil, err
	}
	// Before memory is taken: the header's checksum is right, but the file may be cut.
	if left := r.size - off; h.Size > left || h.Size > maxFrame {
		return h, nil, fmt.Errorf("%w: %d bytes, %d are left", frame.ErrFrame, h.Size, left)
	}
	if payload, err = r.readBytes(off+frame.HeaderSize, h.PayloadSize()); err == nil {
		// The checksum first: it tells torn bytes from those that somebody has changed, which fail
		// their tag.
		_, err = h.Verify(payload, r.id, off+frame.HeaderSize, false)
	}
	if err == nil && r.enc != nil {
		payload, r.before, err = r.enc.decryptEdit(payload, &h, off)
	}
	return h, payload, err
}

// scanFrames walks the frames from a place on, up to a torn tail, and returns where they end. A
// payload is valid until fn returns. It returns *errs.Corruption for damage; frame.Tail has the rule
// that tells the two apart.
func (r *reader) scanFrames(at frame.End, fn func(off int64, h *frame.Header, payload []byte) error) (frame.End, error) {
	if !r.super.agreesWith(at.Name) {
		return at, errOtherCopy(r.name)
	}
	for at.Offset < r.size {
		h, payload, err := r.readFrame(at.Offset)
		if errors.Is(err, frame.ErrFrame) {
			// The good frames end here. judgeTail says whether that is a torn tail or damage.
			break
		}
		// The checksum is right, so the frame is not torn: somebody has changed it.
		if errors.Is(err, crypt.ErrTag) {
			return at, &errs.Corruption{File: r.name, Offset: at.Offset, Reason: fmt.Sprintf("frame %d", h.Number), Err: err}
		}
		if err != nil {
			return at, fmt.Errorf("%s at %d: %w", r.name, at.Offset, err)
		}
		if at.Number == 0 && r.previous.Number != 0 { // only this frame has the tag of the one before
			r.previous.Tag, at.Tag = r.before, r.before
		}
		// No file is written over, so a whole frame of another chain is no rest of what was
		// there before.
		if !at.Continues(&h) || r.before != at.Tag || (h.Kind == frame.Snapshot) != (h.Number == 1) || h.Kind != frame.Snapshot && h.Kind != frame.Edit {
			return at, errs.NewCorruption(r.name, at.Offset, "frame %d (%v) does not continue frame %d", h.Number, h.Kind, at.Number)
		}
		next := at
		next.Advance(&h)
		if !r.super.agreesWith(next.Name) {
			return at, errs.NewCorruption(r.name, at.Offset, "frame %d is not the one that SUPER names: another copy of the store has written it", h.Number)
		}
		if err := fn(at.Offset, &h, payload); err != nil {
			return at, err
		}
		at = next
	}
	return at, r.judgeTail(at)
}

// checkUnchanged returns an error unless the last frame that was read, from last to end, is
// unchanged.
func (r *reader) checkUnchanged(last int64, end frame.End) error {
	if r.size < end.Offset {
		return errs.NewCorruption(r.name, r.size, "ends here; it had %d bytes", end.Offset)
	}
	p, err := r.readBytes(last, frame.HeaderSize)
	if err != nil {
		return err
	}
	h, err := frame.Decode(p, r.id, last)
	if err != nil {
		return &errs.Corruption{File: r.name, Offset: last, Reason: fmt.Sprintf("frame %d was whole when it was read before", end.Number), Err: err}
	}
	found := frame.Name{File: end.File, Number: h.Number, Sum: h.Sum}
	if r.enc != nil {
		// Of a frame only its tag is sure: whoever may write the files can make checksums fit.
		tag, err := r.readBytes(end.Offset-crypt.TagSize, crypt.TagSize)
		if err != nil {
			return err
		}
		found.Tag = crypt.Tag(tag)
	}
	if found != end.Name { // it continues other frames, or is another one
		return errOtherCopy(r.name)
	}
	return nil
}

// errOtherCopy says that the files are those of another copy of the store.
func errOtherCopy(name string) error {
	return fmt.Errorf("%w: another copy of the store has taken its place: %s tells of another past", errs.ErrForeign, name)
}

// judgeTail returns an error if a frame that was durable is missing at the end of the good
// frames. Frame 1 was durable in any case: SUPER names a manifest only after its sync.
func (r *reader) judgeTail(end frame.End) error {
	if r.size-end.Offset > maxFrame {
		return errs.NewCorruption(r.name, end.Offset, "the frames end here, and no write leaves %d bytes behind them", r.size-end.Offset)
	}
	// A whole frame further behind proves that this one was durable: each is synced before the next
	// is written.
	tail, err := frame.FindTail(r.id, end.Offset, end.Number+1, r.size, r.readBytes)
	if err != nil {
		return err
	}
	if durable := max(1, r.super.Durable, tail.Durable); end.Number < durable {
		return errs.NewCorruption(r.name, end.Offset,
			"frame %d is missing or damaged, but frame %d had been durable", end.Number+1, durable)
	}
	return nil
}
