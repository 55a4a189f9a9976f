package backup

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"

	"github.com/brockdb/brock/internal/checkpoint"
	"github.com/brockdb/brock/internal/checksum"
	"github.com/brockdb/brock/internal/codec"
	"github.com/brockdb/brock/internal/crypt"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/keyring"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/manifest"
)

// Options says how a stream is made.
type Options struct {
	Since    *Info // of the stream before; nil: a full one
	Compress bool
	Progress func(Progress) // may be nil
}

// Progress is how far a stream is, in bytes of files that are sent.
type Progress struct{ Bytes, Total int64 }

// Write sends the store s as one stream to w. The caller makes sure that no file of the layout is
// removed or written while Write runs. It returns errs.ErrForeign or errs.ErrInvalid if o.Since
// is not of an earlier state of the store, and *errs.Corruption for damage. After an error the stream
// has no end record.
func Write(ctx context.Context, s checkpoint.Source, w io.Writer, o Options) (*Info, error) {
	if err := o.check(&s); err != nil {
		return nil, err
	}
	from := newSender(s)
	from.ctx = ctx
	var err error
	if from.plan, err = from.makePlan(o.Since); err != nil {
		return nil, err
	}
	to := newWriter(ctx, w, &s, &o)
	if err := to.seal(&s); err != nil {
		return nil, err
	}
	to.total = from.total
	if err := to.files(from); err != nil {
		return nil, err
	}
	return to.info, to.end()
}

// files writes all of the stream but the end record.
func (w *writer) files(from *sender) (err error) {
	ctx, cancel := context.WithCancel(w.ctx)
	from.ctx = ctx
	ended := make(chan error, 1)
	go func() { ended <- from.run() }()
	// A writer that panics leaves nothing behind, either.
	defer func() {
		cancel()
		if reading := <-ended; err == nil {
			err = reading
		}
	}()
	if err := w.begin(from.Layout.Snapshot()); err != nil {
		return err
	}
	for p := range from.out {
		if err := w.piece(p); err != nil {
			return err
		}
		from.free <- p
	}
	return nil
}

func (o *Options) check(s *checkpoint.Source) error {
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
	header   header
	id       checksum.Identity
	off      int64
	digest   hash.Hash
	records  uint64
	coder    codec.Coder
	compress bool
	packed   []byte // memory for a record with a compressed payload
	info     *Info

	keys *keyring.Content // of an encrypted store
	enc  *crypt.Encrypter // of its layout; nil: the store is plain
	seed uint64           // of its key hash

	progress    func(Progress)
	done, total int64
}

func newWriter(ctx context.Context, w io.Writer, s *checkpoint.Source, o *Options) *writer {
	t := &writer{ctx: ctx, w: w, digest: sha256.New(), compress: o.Compress, progress: o.Progress}
	t.header = header{
		major: manifest.FormatMajor, minor: manifest.FormatMinor, uuid: s.UUID, seed: s.Seed, created: s.Created,
		version: s.Layout.LastVersion(), milli: s.Milli,
	}
	if o.Since != nil {
		t.header.follows = o.Since.Digest
	}
	t.id = t.header.identity()
	t.info = &Info{UUID: s.UUID, Version: t.header.version, Milli: s.Milli, Follows: t.header.follows}
	return t
}

// begin writes the header and the layout.
func (w *writer) begin(snapshot *layout.Edit) error {
	p := w.header.encode()
	w.digest.Write(p)
	if err := w.write(p); err != nil {
		return err
	}
	if err := w.describe(manifest.AppendEdit(nil, snapshot)); err != nil {
		return err
	}
	w.report()
	return nil
}

// describe writes the layout.
func (w *writer) describe(edit []byte) error {
	if w.enc != nil {
		return w.sealed(edit)
	}
	return w.pieces(layoutRecord, edit)
}

// pieces writes records of a kind for p.
func (w *writer) pieces(kind recordKind, p []byte) error {
	for len(p) > 0 {
		n := min(len(p), pieceBytes)
		if err := w.record(record{kind: kind, stored: uint32(n), length: uint32(n)}, room(p[:n])); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// room returns a copy of payload with room for the head of a record before it.
func room(payload []byte) []byte { return append(make([]byte, recordSize), payload...) }

// piece writes a piece of the sender.
func (w *writer) piece(p *piece) error {
	if p.begins {
		w.info.Files = append(w.info.Files, p.file)
		if !p.kept {
			w.info.Sent++
		}
		return w.record(record{kind: fileRecord, stored: fileSize, length: fileSize}, room(p.file.encode(p.kept)))
	}
	r := record{kind: dataRecord, stored: uint32(p.n), length: uint32(p.n)}
	buf := p.buf
	switch {
	case p.zeros:
		r.kind, r.stored, buf = zerosRecord, 0, buf[:recordSize]
	case w.compress:
		if packed := w.pack(buf[recordSize:]); packed != nil {
			r.codec, r.stored, buf = codec.Zstd, uint32(len(packed)-recordSize), packed
		}
	}
	err := w.record(r, buf)
	w.done += int64(p.n)
	if w.done%reportBytes < int64(p.n) || w.done == w.total {
		w.report()
	}
	return err
}

// reportBytes is how much is sent between two reports of progress.
const reportBytes = 4 << 20

func (w *writer) report() {
	if w.progress != nil {
		w.progress(Progress{w.done, w.total})
	}
}

// pack compresses b, behind room for a record. It returns nil unless that saves an eighth.
func (w *writer) pack(b []byte) []byte {
	if cap(w.packed) == 0 {
		w.packed = make([]byte, recordSize+2*pieceBytes)
	}
	z := w.coder.Encode(w.packed[recordSize:recordSize], codec.Zstd, b)
	if len(z) > len(b)-len(b)/8 || &z[0] != &w.packed[:recordSize+1][recordSize] {
		return nil
	}
	return w.packed[:recordSize+len(z)]
}

// record writes a record. buf has room for its head, and then its payload.
func (w *writer) record(r record, buf []byte) error {
	r.encode(buf, w.id, w.off, w.id.Sum(w.off+recordSize, buf[recordSize:]))
	if r.kind != endRecord {
		w.digest.Write(buf[:recordSize])
		w.records++
	}
	return w.write(buf)
}

// end ends the stream.
func (w *writer) end() error {
	w.digest.Sum(w.info.Digest[:0])
	e := ending{files: uint64(len(w.info.Files)), bytes: uint64(w.info.StoreBytes()), records: w.records, digest: w.info.Digest}
	err := w.record(record{kind: endRecord, stored: endSize, length: endSize}, room(e.encode()))
	w.info.Bytes = w.off
	return err
}

func (w *writer) write(p []byte) error {
	if err := errs.Ended(w.ctx); err != nil {
		return err
	}
	n, err := w.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	w.off += int64(n)
	return err
}
