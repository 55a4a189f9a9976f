// Package segment is one file of records: a journal segment (a log file of the write-ahead
// log), written by commits and read while it still grows, or a value segment (a value log
// file), written in key order by flush and collection. Both are a header and frames
// (docs/format.md), so one reader serves both. With Config.Ring what is written is encrypted;
// what is read may be encrypted or plain, as its file key id says.
//
// Three words of ours: a handle is a value pointer (segment, offset, length). A file key id is the
// id of the key that one file is encrypted with. A forwarding table is a forwarding table: it leads
// from the places that records had in a segment to those in the segment that collection moved them
// to.
//
// What is durable when: Create and Append only write. A segment counts for
// nothing until its file was synced (Writer.Sync) and then its directory; for
// a journal segment package journal does both with the first sync that covers
// it, for a value segment ValueWriter.Finish does.
package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
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

const (
	// HeaderSize is the length of a segment's header; the first frame follows it.
	HeaderSize  = 4096
	sealPayload = 40
	sumOffset   = HeaderSize - 4
)

// Config says where segments lie and which store they belong to.
type Config struct {
	FS    vfs.FS
	Dir   string
	UUID  [16]byte
	Ring  *crypt.Ring   // keys of the store; nil: it is plain
	Files *pageio.Files // opens files for reading; nil = without a limit of open ones

	Written *atomic.Int64 // counts the bytes that Writers write; nil: nobody counts
}

// openFile opens a file of the kind for reading.
func (c *Config) openFile(k filename.Kind, n entry.FileNum, o pageio.Options) (*pageio.File, error) {
	files := c.Files
	if files == nil {
		files = pageio.NewFiles(c.FS, 0)
	}
	return files.Open(c.filePath(k, n), o)
}

// filePath is the path of a segment's file.
func (c *Config) filePath(k filename.Kind, n entry.FileNum) string {
	return filepath.Join(c.Dir, filename.Of(k, n))
}

// identity is the identity that a segment's checksums are bound to.
func (c *Config) identity(k filename.Kind, n entry.FileNum) checksum.Identity {
	return checksum.New(c.UUID, byte(k), uint64(n))
}

// Header is a segment's header.
type Header struct {
	Kind        filename.Kind // filename.Journal or filename.Value
	Number      entry.FileNum
	Before      frame.Name    // journal: the frame before its first one, whose tag stands for its file key id; zero = there is none
	PrevVersion entry.Version // journal: greatest version in all segments before

	KeyID crypt.FileKeyID // names the file's key, and is drawn by Create; zero = it is plain
}

// Place is how far the frames of a segment were written or read: behind which frame, and what came
// up to there.
type Place struct {
	frame.End
	frame.Totals      // of the records so far
	Sealed       bool // the last frame was the seal
}

// passFrame moves p behind the next frame, whose records have these totals.
func (p *Place) passFrame(h *frame.Header, t frame.Totals) {
	p.End.Advance(h)
	p.Totals.Add(t)
	p.Sealed = h.Kind == frame.Seal
}

// FirstPlace is the place where the first frame goes.
func (h *Header) FirstPlace() Place {
	name := frame.Name{File: h.Number, KeyID: h.KeyID, Number: h.Before.Number, Sum: h.Before.Sum, Tag: h.Before.Tag}
	return Place{End: frame.End{Name: name, Offset: HeaderSize}}
}

// FirstFrame is the number of the first frame.
func (h *Header) FirstFrame() uint64 { return h.Before.Number + 1 }

// ErrHeader says that a header is damaged, not written yet, or of a file with another number.
var ErrHeader = errors.New("bad segment header")

// encodeHeader writes h to the HeaderSize bytes of p; e is nil for a plain file.
func (h *Header) encodeHeader(p []byte, uuid [16]byte, e *crypt.Encrypter) error {
	clear(p)
	binary.LittleEndian.PutUint16(p[8:], frame.HeaderSize)
	binary.LittleEndian.PutUint64(p[32:], h.FirstFrame())
	binary.LittleEndian.PutUint32(p[40:], h.Before.Sum)
	binary.LittleEndian.PutUint64(p[48:], uint64(h.Before.File))
	binary.LittleEndian.PutUint64(p[56:], uint64(h.PrevVersion))
	if e != nil {
		copy(p[crypt.FrameTagAt:], h.Before.Tag[:])
	}
	return finishPage(p, h.Kind, h.Number, uuid, e, h.KeyID)
}

// decodeHeader reads the header p of the segment of this kind and number, and returns what decrypts
// the file. Its errors are those of checkPage.
func (c *Config) decodeHeader(p []byte, kind filename.Kind, number entry.FileNum) (Header, *crypt.Decrypter, error) {
	h := Header{Kind: kind, Number: number}
	keyID, d, err := c.checkPage(p, kind, number, nil)
	if err == nil {
		err = h.decodeFields(p, keyID)
	}
	return h, d, err
}

// decodeFields reads the header on a page that checkPage has checked; h has its kind and number.
func (h *Header) decodeFields(p []byte, keyID crypt.FileKeyID) error {
	h.KeyID = keyID
	if size := binary.LittleEndian.Uint16(p[8:]); size != frame.HeaderSize {
		return fmt.Errorf("%w: frame headers of %d bytes", errs.ErrFormat, size)
	}
	first := binary.LittleEndian.Uint64(p[32:])
	h.Before = frame.Name{File: entry.FileNum(binary.LittleEndian.Uint64(p[48:])), Number: first - 1, Sum: binary.LittleEndian.Uint32(p[40:])}
	h.PrevVersion = entry.Version(binary.LittleEndian.Uint64(p[56:]))
	if !keyID.IsZero() {
		h.Before.Tag = crypt.Tag(p[crypt.FrameTagAt:])
	}
	// The checksum is right, so only a bug or another program wrote this. Later code subtracts 1.
	if first == 0 || h.PrevVersion > entry.MaxVersion {
		return fmt.Errorf("%w: first frame %d, version %d", ErrHeader, first, h.PrevVersion)
	}
	return nil
}

// SealSize is the length of the frame that Seal appends.
func SealSize(encrypted bool) int64 {
	if encrypted {
		return frame.EncryptedFrameSize(0, sealPayload)
	}
	return frame.HeaderSize + sealPayload
}

// EndsSealed reports whether end, the last bytes of a segment of this size, ends with its seal.
// The seal's chain depends on all frames before it. A crash leaves segments without a seal.
func (c *Config) EndsSealed(kind filename.Kind, number entry.FileNum, end []byte, size int64) bool {
	// The caller doesn't know whether the file is encrypted, and the two seals differ in length.
	for _, encrypted := range []bool{false, true} {
		length := SealSize(encrypted)
		if int64(len(end)) < length {
			continue
		}
		h, err := frame.Decode(end[int64(len(end))-length:], c.identity(kind, number), size-length)
		if err == nil && h.Kind == frame.Seal && h.Size == length && h.Encrypted == encrypted {
			return true
		}
	}
	return false
}

// checkSeal compares the payload of a seal frame with what was read before it.
func checkSeal(p []byte, t frame.Totals) error {
	var s frame.Totals
	if _, err := binary.Decode(p, binary.LittleEndian, &s); err != nil {
		return fmt.Errorf("%w: seal of %d bytes", frame.ErrFrame, len(p))
	}
	if s != t {
		return fmt.Errorf("%w: seal says %+v, the frames have %+v", frame.ErrFrame, s, t)
	}
	return nil
}
