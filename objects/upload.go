package objects

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"math"

	"github.com/brockdb/brock"
)

// PutOptions say what is kept with a content.
type PutOptions struct {
	Type string // content type; at most MaxType bytes
	Meta []byte // bytes of the caller, which are copied; at most MaxMeta bytes
	Size int64  // length that the content must have, else Put returns ErrInvalid; 0 = any
}

// validatePut returns an error for options that are not possible.
func (o *PutOptions) validatePut() error {
	switch {
	case len(o.Type) > MaxType:
		return &brock.OptionError{Field: "Type", Reason: "is longer than 255 bytes"}
	case len(o.Meta) > MaxMeta:
		return &brock.OptionError{Field: "Meta", Reason: "is longer than 64 KiB"}
	case o.Size < 0:
		return &brock.OptionError{Field: "Size", Reason: "is negative"}
	}
	return nil
}

// linker makes a content that was written reachable.
type linker struct {
	check func(txn *brock.Txn) error                   // fails early if link would fail; may be nil
	have  func(txn *brock.Txn, d Digest) (bool, error) // a content of this digest need not be written; may be nil
	link  func(txn *brock.Txn, h *head) (*head, error) // returns the head that counts
}

// putContent writes the parts of what r has, and links them.
func (s *space) putContent(txn *brock.Txn, r io.Reader, o *PutOptions, l linker) (*head, error) {
	if err := s.checkPut(r, o); err != nil {
		return nil, err
	}
	if err := s.checkWrites(txn); err != nil {
		return nil, err
	}
	if l.check != nil {
		// Before the content: it may be long, and can't be read again.
		if err := l.check(txn); err != nil {
			return nil, err
		}
	}
	return s.writeContent(txn, r, o, l)
}

// checkPut returns an error for arguments that are not possible.
func (s *space) checkPut(r io.Reader, o *PutOptions) error {
	switch {
	case s.heads == nil:
		return errNotOpened
	case r == nil:
		return errNilReader
	}
	return o.validatePut()
}

// writeContent is putContent, once everything was checked.
func (s *space) writeContent(txn *brock.Txn, r io.Reader, o *PutOptions, l linker) (*head, error) {
	h := s.newHead(o)
	linked := false
	// Also if r panics. Else the caller could commit parts that no head names. If this fails, txn
	// can't be committed either: it has ended, or its writes have failed.
	defer func() {
		if !linked && h.size > 0 {
			_ = s.deleteID(txn, h.id)
		}
	}()
	if err := s.writeParts(txn, r, h, o.Size, l.have); err != nil {
		return nil, err
	}
	if o.Size > 0 && h.size != o.Size {
		return nil, errSize
	}
	final, err := l.link(txn, h)
	linked = err == nil
	return final, err
}

// newHead returns the head of a content that is yet to be written, under an id of its own.
func (s *space) newHead(o *PutOptions) *head {
	h := &head{kind: s.kind, partSize: int64(s.partSize), millis: s.now(), typ: o.Type, meta: bytes.Clone(o.Meta)}
	_, _ = rand.Read(h.id[:]) // it never fails
	return h
}

// writeParts writes what r has as the parts of h, and fills in length and digest. A content of one
// part that have reports is not written. One that gets longer than most, unless that is 0, is not
// read to its end.
func (s *space) writeParts(txn *brock.Txn, r io.Reader, h *head, most int64, have func(*brock.Txn, Digest) (bool, error)) error {
	parts, sum, buf := txn.In(s.parts), sha256.New(), newBuffer(s.partSize)
	for n, end := int64(0), false; !end; n++ {
		part, err := buf.fillFrom(r)
		if end = err == io.EOF; err != nil && !end {
			return err
		}
		if int64(len(part)) > math.MaxInt64-h.size {
			return errTooLong
		}
		if h.size += int64(len(part)); most > 0 && h.size > most {
			return errSize
		}
		sum.Write(part)
		if end {
			h.digest = Digest(sum.Sum(nil))
		}
		if end && n == 0 && have != nil {
			if h.unwritten, err = have(txn, h.digest); h.unwritten || err != nil {
				return err
			}
		}
		if len(part) == 0 {
			continue // the content is empty
		}
		if err := parts.Set(h.id.partKey(n), part); err != nil {
			return err
		}
	}
	return nil
}

// buffer reads one part at a time, and a byte of the next one, so that the last part is known as
// such. It grows up to the size of a part, as most objects are small.
type buffer struct {
	bytes []byte
	size  int
	more  bool // the byte behind the part is of the next one
	ended bool // the reader has returned io.EOF
}

const leastBuffer = 4 << 10

func newBuffer(size int) *buffer { return &buffer{size: size} }

// maxEmptyReads is how often in a row a reader may return nothing.
const maxEmptyReads = 100

// fillFrom reads a part. With the last one the error is io.EOF; only that of an empty content is
// empty. The bytes are valid until the next call.
func (b *buffer) fillFrom(r io.Reader) ([]byte, error) {
	n, empty := 0, 0
	if b.more {
		b.bytes[0], b.more, n = b.bytes[b.size], false, 1
	}
	for n <= b.size && !b.ended {
		if n == len(b.bytes) {
			grown := make([]byte, min(max(2*n, leastBuffer), b.size+1))
			copy(grown, b.bytes)
			b.bytes = grown
		}
		got, err := r.Read(b.bytes[n:])
		if got < 0 || got > len(b.bytes)-n {
			return nil, errCount
		}
		n += got
		switch {
		case err == io.EOF:
			b.ended = true // perhaps with the first byte of the next part
		case err != nil:
			return nil, fmt.Errorf("objects: read the content: %w", err)
		case got > 0:
			empty = 0
		default:
			// io.ReadFull would go on for ever.
			if empty++; empty >= maxEmptyReads {
				return nil, fmt.Errorf("objects: read the content: %w", io.ErrNoProgress)
			}
		}
	}
	if n <= b.size {
		return b.bytes[:n], io.EOF
	}
	b.more = true
	return b.bytes[:b.size], nil
}

// uploadContent is putContent in transactions of its own.
func (s *space) uploadContent(ctx context.Context, r io.Reader, o *PutOptions, key []byte, l linker, with func(*brock.Txn, Info) error) (Info, error) {
	if err := s.checkPut(r, o); err != nil {
		return Info{}, err
	}
	if ctx == nil {
		return Info{}, errNilContext
	}
	if l.check != nil {
		if err := s.db.ViewContext(ctx, brock.TxnOptions{}, l.check); err != nil {
			return Info{}, err
		}
	}
	buf := newBuffer(s.partSize)
	first, err := buf.fillFrom(r)
	if err == io.EOF {
		// All of it is in memory, so Update may run again.
		return s.commitLink(ctx, key, with, func(txn *brock.Txn) (*head, error) {
			return s.putContent(txn, bytes.NewReader(first), o, l)
		})
	}
	if err != nil {
		return Info{}, err
	}
	if _, err := s.sweepStaged(ctx); err != nil {
		return Info{}, err
	}
	read := bytes.NewReader(buf.bytes[:buf.size+1])
	rest := io.Reader(read)
	if !buf.ended {
		rest = io.MultiReader(read, r)
	}
	h, err := s.stageContent(ctx, rest, o)
	if err != nil {
		return Info{}, err
	}
	info, err := s.commitLink(ctx, key, with, func(txn *brock.Txn) (*head, error) {
		if err := s.takeMark(txn, h.id); err != nil {
			return nil, err
		}
		linked := *h // each run begins with what was staged
		return l.link(txn, &linked)
	})
	if err != nil {
		// Also when ctx has ended. If it fails, a later Upload or Sweep does it.
		_ = s.dropStaged(context.WithoutCancel(ctx), h.id)
	}
	return info, err
}

// stageContent commits the parts of what r has, with a mark that says that they are not linked yet.
// The transaction reads nothing, so it can't conflict.
func (s *space) stageContent(ctx context.Context, r io.Reader, o *PutOptions) (h *head, err error) {
	// Buffered: the commit that links it is durable only with all that was committed before it.
	txn, err := s.db.Begin(ctx, brock.TxnOptions{Update: true, Durability: brock.Buffered})
	if err != nil {
		return nil, err
	}
	defer txn.Discard()
	h, err = s.writeContent(txn, r, o, linker{link: func(txn *brock.Txn, h *head) (*head, error) {
		return h, txn.In(s.parts).Set(h.id.stagedKey(), encodeStaged(s.now()))
	}})
	if err != nil {
		return nil, err
	}
	return h, txn.Commit()
}

// commitLink runs link in an Update, and with behind it.
func (s *space) commitLink(ctx context.Context, key []byte, with func(*brock.Txn, Info) error, link func(txn *brock.Txn) (*head, error)) (info Info, err error) {
	err = s.db.UpdateContext(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error {
		h, err := link(txn)
		if err != nil {
			return err
		}
		if key == nil {
			info = h.makeInfo(h.digest[:])
		} else {
			info = h.makeInfo(key)
		}
		if with == nil {
			return nil
		}
		return with(txn, info)
	})
	if err != nil {
		return Info{}, err
	}
	return info, nil
}
