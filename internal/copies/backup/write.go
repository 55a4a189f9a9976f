package backup

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"slices"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/codec"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/copies/checkpoint"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/report"
)

// Options says how a stream is made.
type Options struct {
	Since    *Info                       // of the stream before; nil: a full one
	Compress bool                        // data of plain stores
	Progress func(report.BackupProgress) // may be nil
}

// Write sends the store s as one stream to w. The caller makes sure that no file of the layout is
// removed or written while Write runs. It returns errs.ErrForeign or errs.ErrInvalid if o.Since is
// not of an earlier state of the store, and *errs.Corruption for damage. After an error the stream
// has no end record.
func Write(ctx context.Context, s checkpoint.Fileset, w io.Writer, o Options) (*Info, error) {
	if err := o.checkSince(&s); err != nil {
		return nil, err
	}
	sending, cancel := context.WithCancel(ctx)
	defer cancel()
	from := newSender(sending, s)
	if err := from.planFiles(o.Since); err != nil {
		return nil, err
	}
	// The plan comes first: damage of a header or footer is found before a byte was sent.
	to, err := newWriter(ctx, w, s, &o)
	if err != nil {
		return nil, err
	}
	for _, f := range from.files {
		if !f.kept {
			to.total += f.sent.Size
		}
	}
	if err := to.writeFiles(from, cancel); err != nil {
		return nil, err
	}
	return to.info, to.writeEnding()
}

// writeFiles writes all of the stream but the end record.
func (w *writer) writeFiles(from *sender, cancel func()) (err error) {
	ended := make(chan error, 1)
	go func() { ended <- from.sendFiles() }()
	// A writer that panics leaves nothing behind, either.
	defer func() {
		// The sender may wait for room.
		cancel()
		if reading := <-ended; err == nil {
			err = reading
		}
	}()
	if err := w.writeHeader(); err != nil {
		return err
	}
	for p := range from.out {
		if err := w.writePiece(p); err != nil {
			return err
		}
		if p.begins == nil {
			from.used.Put(p)
		}
	}
	return nil
}

// checkSince returns an error if the stream before is not of an earlier state of the store.
func (o *Options) checkSince(s *checkpoint.Fileset) error {
	switch {
	case o.Since == nil:
		return nil
	case o.Since.UUID != s.UUID:
		return foreign("the backup before is of another store")
	case o.Since.Version > s.Layout.LastVersion():
		return fmt.Errorf("%w: the backup before has version %d, the store %d", errs.ErrInvalid, o.Since.Version, s.Layout.LastVersion())
	}
	return nil
}

// writer makes the bytes of a stream.
type writer struct {
	ctx      context.Context
	w        io.Writer
	store    checkpoint.Fileset
	header   header
	id       checksum.Identity
	off      int64            // bytes written so far
	digest   hash.Hash        // of header and heads so far
	records  uint64           // written so far
	enc      *crypt.Encrypter // of the layout; nil: the store is plain
	coder    codec.Coder
	compress bool
	packed   []byte // memory for a record with a compressed payload
	info     *Info

	progress    func(report.BackupProgress)
	done, total int64 // bytes of files that were sent, and that will be
}

// newWriter returns the writer of a stream of s.
func newWriter(ctx context.Context, w io.Writer, s checkpoint.Fileset, o *Options) (t *writer, err error) {
	t = &writer{ctx: ctx, w: w, store: s, digest: sha256.New(), compress: o.Compress, progress: o.Progress}
	t.header = header{
		Major: manifest.FormatMajor, Minor: manifest.FormatMinor, UUID: s.UUID, Seed: s.Seed, Created: s.Created,
		Version: s.Layout.LastVersion(), Milli: s.Milli,
	}
	if o.Since != nil {
		t.header.Follows = o.Since.Digest
	}
	if s.Ring != nil {
		// The seed tells where keys lie in the hash: in an encrypted stream it is with the layout.
		t.header.Seed = 0
		t.compress = false // encrypted bytes don't shrink
		t.enc, t.header.KeyID, err = s.Ring.New(t.header.cryptFile())
	}
	t.id = t.header.identity()
	t.info = t.header.newInfo()
	return t, err
}

// writeHeader writes the header and the layout.
func (w *writer) writeHeader() error {
	p := w.header.encodeHeader()
	w.digest.Write(p)
	if err := w.writeBytes(p); err != nil {
		return err
	}
	edit := manifest.AppendEdit(nil, w.store.Layout.Snapshot())
	if w.enc != nil {
		if err := w.writePieces(keysRecord, w.store.Keys.Encode()); err != nil {
			return err
		}
		edit = append(encodeFields(&layoutHead{Length: uint64(len(edit)), Seed: w.store.Seed}), edit...)
	}
	if err := w.writePieces(layoutRecord, edit); err != nil {
		return err
	}
	w.reportProgress()
	return nil
}

// writePieces writes records of a kind for p. Those of the layout are encrypted if the store is.
func (w *writer) writePieces(kind recordKind, p []byte) (err error) {
	most, secret := pieceBytes, w.enc != nil && kind == layoutRecord
	if secret {
		// The tag is part of the payload, which is bounded.
		most -= crypt.TagSize
	}
	for part := range slices.Chunk(p, most) {
		buf := withRoom(part)
		if secret {
			if buf, err = w.encryptPayload(buf); err != nil {
				return err
			}
		}
		if err := w.writeRecord(kind, codec.None, len(buf)-recordSize, buf); err != nil {
			return err
		}
	}
	return nil
}

// withRoom returns a copy of payload with room for the head of a record before it, and for a tag.
func withRoom(payload []byte) []byte {
	return append(make([]byte, recordSize, recordSize+len(payload)+crypt.TagSize), payload...)
}

// writePiece writes a piece of the sender.
func (w *writer) writePiece(p *piece) error {
	if f := p.begins; f != nil {
		w.info.Files = append(w.info.Files, f.sent)
		if !f.kept {
			w.info.Sent++
		}
		return w.writeRecord(fileRecord, codec.None, fileSize, withRoom(f.sent.encodeFile(f.kept)))
	}
	kind, packing, buf, length := dataRecord, codec.None, p.buf, len(p.buf)-recordSize
	switch {
	case allZero(buf[recordSize:]):
		kind, buf = zerosRecord, buf[:recordSize]
	case w.compress:
		if packed := w.compressPiece(buf[recordSize:]); packed != nil {
			packing, buf = codec.Zstd, packed
		}
	}
	err := w.writeRecord(kind, packing, length, buf)
	w.done += int64(length)
	if w.done%reportBytes < int64(length) || w.done == w.total {
		w.reportProgress()
	}
	return err
}

// reportBytes is how much is sent between two reports of progress.
const reportBytes = 4 << 20

// reportProgress calls Options.Progress, if it is set.
func (w *writer) reportProgress() {
	if w.progress != nil {
		w.progress(report.BackupProgress{Bytes: w.done, Total: w.total})
	}
}

// compressPiece compresses b, behind room for a record. It returns nil unless that saves an eighth.
func (w *writer) compressPiece(b []byte) []byte {
	if cap(w.packed) == 0 {
		w.packed = make([]byte, recordSize+2*pieceBytes)
	}
	z := w.coder.Encode(w.packed[recordSize:recordSize], codec.Zstd, b)
	// An eighth saved is worth the time to decompress; and a result in other memory has no room for
	// a head.
	if len(z) > len(b)-len(b)/8 || &z[0] != &w.packed[:recordSize+1][recordSize] {
		return nil
	}
	return w.packed[:recordSize+len(z)]
}

// writeRecord writes a record that stands for length bytes. buf has room for its head, and then its
// payload.
func (w *writer) writeRecord(kind recordKind, packing codec.Codec, length int, buf []byte) error {
	sum := w.id.Sum(w.off+recordSize, buf[recordSize:])
	r := record{Kind: kind, Codec: packing, Payload: sum, Stored: uint32(len(buf) - recordSize), Length: uint32(length)}
	r.encodeHead(buf, w.id, w.off)
	if kind != endRecord {
		// Heads have the checksums of their payloads, so the digest covers all of them at little
		// cost.
		w.digest.Write(buf[:recordSize])
		w.records++
	}
	return w.writeBytes(buf)
}

// writeEnding ends the stream.
func (w *writer) writeEnding() error {
	w.digest.Sum(w.info.Digest[:0])
	e := ending{Files: uint64(len(w.info.Files)), Bytes: uint64(w.info.StoreBytes()), Records: w.records, Digest: w.info.Digest}
	// Only a stream with this record counts: after an error it stays incomplete, and is refused.
	err := w.writeRecord(endRecord, codec.None, endSize, withRoom(encodeFields(&e)))
	w.info.Bytes = w.off
	return err
}

// writeBytes writes p, unless the context has ended.
func (w *writer) writeBytes(p []byte) error {
	if err := errs.Ended(w.ctx); err != nil {
		return err
	}
	n, err := w.w.Write(p)
	if err == nil && n < len(p) {
		// Some writers report no error. The stream would go on behind a gap.
		err = io.ErrShortWrite
	}
	w.off += int64(n)
	return err
}
