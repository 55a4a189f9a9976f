package backup

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"slices"

	"github.com/brockdb/brock/internal/checkpoint"
	"github.com/brockdb/brock/internal/checksum"
	"github.com/brockdb/brock/internal/codec"
	"github.com/brockdb/brock/internal/crypt"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/keyring"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/manifest"
)

// Options says how a stream is made.
type Options struct {
	Since     *Info    // of the stream before; nil: a full one
	Keyspaces []string // names of those that the stream has; "" = the default one; none: all
	Plain     bool     // the stream of an encrypted store is that of a plain one
	Compress  bool
	Progress  func(Progress) // may be nil

	Outputs Outputs // only with Keyspaces or Plain
}

// Progress is how far a stream is, in bytes.
type Progress struct {
	Bytes, Total        int64 // of files that are sent
	Prepared, ToPrepare int64 // of runs and values that are read before, to make files of a part of them
}

// Write sends the store s as one stream to w. The caller makes sure that no file of the layout is
// removed or written while Write runs. It returns errs.ErrForeign or errs.ErrInvalid if o.Since
// is not of an earlier state of the store, or is of other keyspaces; errs.ErrKeyspaceNotFound;
// and *errs.Corruption for damage. After an error the stream has no end record.
func Write(ctx context.Context, s checkpoint.Source, w io.Writer, o Options) (*Info, error) {
	if err := o.check(&s); err != nil {
		return nil, err
	}
	var part *Part
	var elsewhere map[filename.Name]bool
	var prepared int64
	if len(o.Keyspaces) > 0 || o.plain(&s) {
		x := newExtractor(s, &o)
		defer x.remove()
		if err := x.extract(ctx, &o); err != nil {
			return nil, err
		}
		s, part, elsewhere, prepared = x.Source, x.part, x.elsewhere, x.prepared
	}
	from := newSender(s)
	from.ctx = ctx
	var err error
	if from.plan, err = from.makePlan(o.Since, elsewhere); err != nil {
		return nil, err
	}
	to := newWriter(ctx, w, &s, &o)
	to.info.Part = part
	if err := to.seal(&s); err != nil {
		return nil, err
	}
	to.total, to.prepared = from.total, prepared
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
	return o.sameKeyspaces(s)
}

// plain reports whether files of an encrypted store are to be written in clear.
func (o *Options) plain(s *checkpoint.Source) bool { return o.Plain && s.Ring != nil }

// sameKeyspaces returns an error unless the stream before has the same keyspaces as the one that
// is made, and is plain if this one is.
func (o *Options) sameKeyspaces(s *checkpoint.Source) error {
	plain := o.plain(s)
	switch before := o.Since.Part; {
	case before != nil && before.sealed, s.Ring != nil && !plain && len(o.Keyspaces) > 0:
		return fmt.Errorf("%w: a backup of some keyspaces of an encrypted store has no increments, unless both are plain", errs.ErrUnsupported)
	case plain && before == nil:
		return fmt.Errorf("%w: the backup before is not a plain one of an encrypted store", errs.ErrInvalid)
	case plain && len(o.Keyspaces) == 0:
		return before.hasAll(s.Layout)
	case before == nil && len(o.Keyspaces) == 0:
		return nil
	case before == nil:
		return fmt.Errorf("%w: the backup before has all keyspaces", errs.ErrInvalid)
	case len(o.Keyspaces) == 0:
		return before.hasOnly()
	case !slices.Equal(before.Keyspaces, o.keyspaces()):
		return fmt.Errorf("%w: the backup before has the keyspaces %q", errs.ErrInvalid, before.Keyspaces)
	}
	return nil
}

// keyspaces returns the names, each once, ascending.
func (o *Options) keyspaces() []string {
	names := slices.Clone(o.Keyspaces)
	slices.Sort(names)
	return slices.Compact(names)
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
	prepared    int64
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

// begin writes the header, the layout and the list of keyspaces.
func (w *writer) begin(snapshot *layout.Edit) error {
	p := w.header.encode()
	w.digest.Write(p)
	if err := w.write(p); err != nil {
		return err
	}
	var part []byte
	if w.info.Part != nil {
		part = w.info.Part.encode()
	}
	if err := w.describe(manifest.AppendEdit(nil, snapshot), part); err != nil {
		return err
	}
	w.report()
	return nil
}

// describe writes the layout, and the list of keyspaces if the stream has one.
func (w *writer) describe(edit, part []byte) error {
	if w.enc != nil {
		return w.sealed(edit, part)
	}
	if err := w.pieces(layoutRecord, edit); err != nil {
		return err
	}
	return w.pieces(partRecord, part)
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
		w.progress(Progress{Bytes: w.done, Total: w.total, Prepared: w.prepared, ToPrepare: w.prepared})
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
