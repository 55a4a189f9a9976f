package backup

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/codec"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/keyring"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/vfs"
)

// Verify reads streams to the end of r, each of which must follow the one before, and
// describes the last one. The first may be an increment. It returns errs.ErrForeign or
// errs.ErrInvalid for one that doesn't follow, errs.ErrFormat for one of a later release,
// and *errs.Corruption for one that is damaged or cut. keys may be nil, also for an encrypted
// one, of which it then doesn't look at the layout. errs.ErrKey says that they don't fit.
func Verify(ctx context.Context, r io.Reader, keys keyring.Provider) (*Info, error) {
	d := &reader{ctx: ctx, r: bufio.NewReaderSize(r, readBuffer), to: Target{Keys: keys}}
	return d.readStreams()
}

// reader decodes the streams of r, and makes files of them.
type reader struct {
	ctx    context.Context
	r      *bufio.Reader
	to     Target          // without FS: of Verify, and no file is made; without Keys: the layout of an encrypted stream stays unread
	claim  *manifest.Claim // of the directories; nil: no file is made
	out    vfs.File        // the file that is being made; nil: none
	coder  codec.Coder
	stored []byte // payload of the present record
	plain  []byte // memory for a payload that was compressed

	incoming
}

// incoming is what a reader knows of the stream that it reads, or has read last.
type incoming struct {
	header  *header
	id      checksum.Identity
	off     int64     // bytes that were read
	at      int64     // where the present record begins
	digest  hash.Hash // of header and heads so far
	records uint64    // so far

	keys     []byte           // the keyring, as far as it was read
	unlocked bool             // the keyring is whole, or there is none
	content  *keyring.Content // nil: the store is plain
	ring     *crypt.Ring      // nil: it is plain, or there is no provider
	dec      *crypt.Decrypter // of the layout; nil: it is plain, or can't be read

	edit   []byte                  // bytes of the layout's edit, as far as they were read
	layout *layout.Layout          // nil: it can't be read
	wanted map[filename.Name]int64 // lengths of the files that the layout names; -1: it doesn't say; nil: it was not read to its end
	there  map[filename.Name]bool  // files that are in the stream so far
	had    map[filename.Name]File  // of the stream before; nil: it is not known
	info   *Info
	bytes  int64 // of the files so far
	file   File  // the present one
	left   int64 // bytes that it still lacks
}

// readBuffer is how many bytes are read at once.
const readBuffer = 1 << 20

// readStreams reads all streams, and describes the last one.
func (d *reader) readStreams() (*Info, error) {
	for {
		if _, err := d.r.Peek(1); err == io.EOF && d.info != nil {
			// Somebody may have put a plain backup in the place of an encrypted one.
			if d.header.KeyID.IsZero() && d.to.Keys != nil {
				err = fmt.Errorf("%w: Keys is set, and the backup is plain: restore it without Keys, and encrypt the new store", errs.ErrKey)
				return nil, err
			}
			return d.info, nil
		}
		if err := d.readHeader(); err != nil {
			return nil, err
		}
		for ended := false; !ended; {
			var err error
			if ended, err = d.readRecord(); err != nil {
				return nil, err
			}
		}
	}
}

// readHeader reads the header of a stream.
func (d *reader) readHeader() error {
	d.off = 0
	p := make([]byte, headerSize)
	if err := d.readFull(p); err != nil {
		// Too short for a header, and begins otherwise: not a cut backup, but no backup.
		if n := min(d.off, int64(len(magic))); errors.Is(err, errs.ErrCorrupt) && string(p[:n]) != magic[:n] {
			return foreign("this is no backup")
		}
		return err
	}
	h, err := decodeHeader(p)
	if err == nil {
		err = d.checkFollows(h)
	}
	if err == nil && d.to.FS != nil {
		err = d.claimDirs(h)
	}
	if err != nil {
		return err
	}
	next := incoming{header: h, id: h.identity(), off: d.off, digest: sha256.New(), there: map[filename.Name]bool{}}
	next.digest.Write(p)
	if d.info != nil || h.Follows == (Digest{}) {
		next.had = d.info.byName()
	}
	next.info = h.newInfo()
	d.incoming = next
	return nil
}

// checkFollows compares a stream with the one before.
func (d *reader) checkFollows(h *header) error {
	switch last := d.info; {
	case last == nil:
		return nil
	case h.UUID != last.UUID:
		return foreign("the next backup is of another store")
	case h.Follows == (Digest{}):
		return fmt.Errorf("%w: a full backup follows another one: restore it alone", errs.ErrInvalid)
	case h.Follows != last.Digest:
		return fmt.Errorf("%w: the increment of version %d doesn't follow the backup of version %d: one between them is missing, or the order is another", errs.ErrInvalid, h.Version, last.Version)
	// The opposite is allowed: EncryptStore came between them.
	case h.KeyID.IsZero() && !d.header.KeyID.IsZero():
		return fmt.Errorf("%w: a plain backup follows an encrypted one", errs.ErrKey)
	}
	return nil
}

// readRecord reads a record. ended says that it was the end record.
func (d *reader) readRecord() (ended bool, err error) {
	if err := errs.Ended(d.ctx); err != nil {
		return false, err
	}
	var head [recordSize]byte
	d.at = d.off
	if err := d.readFull(head[:]); err != nil {
		return false, err
	}
	r, err := decodeRecord(head[:], d.id, d.at)
	if err != nil {
		return false, err
	}
	payload := d.off
	d.stored = withLength(d.stored, int(r.Stored))
	if err := d.readFull(d.stored); err != nil {
		return false, err
	}
	// Before anything is done with the payload: a file never gets bytes that were not verified.
	if got := d.id.Sum(payload, d.stored); got != r.Payload {
		return false, errs.NewCorruption(streamName, payload, "payload: checksum %#x, want %#x", got, r.Payload)
	}
	if r.Kind == endRecord {
		return true, d.checkEnding()
	}
	d.digest.Write(head[:])
	d.records++
	return false, d.handleRecord(&r)
}

// recordError says what is wrong with the present record, whose checksums are right.
func (d *reader) recordError(format string, args ...any) error {
	return errs.NewCorruption(streamName, d.at, format, args...)
}

// handleRecord handles a record. Its payload is in d.stored.
func (d *reader) handleRecord(r *record) error {
	switch r.Kind {
	case keysRecord, layoutRecord:
		return d.addDescription(r.Kind)
	case fileRecord:
		return d.beginFile()
	}
	// Checksums are no secret, so anybody can make a stream: what it says is compared before use.
	if int64(r.Length) > d.left { // 0 ahead of the first file, too
		return d.recordError("more bytes than the file has")
	}
	at := d.file.Size - d.left
	d.left -= int64(r.Length)
	if r.Kind == zerosRecord {
		return nil // a hole
	}
	p := d.stored
	if r.Codec != codec.None {
		var err error
		d.plain = withLength(d.plain, pieceBytes)
		if p, err = d.coder.Decode(d.plain, r.Codec, d.stored, int(r.Length)); err != nil {
			return d.recordError("%v", err)
		}
	}
	return d.writeData(p, at)
}

// addDescription handles a record of what is ahead of the files: the keyring, or the layout.
func (d *reader) addDescription(kind recordKind) error {
	encrypted := !d.header.KeyID.IsZero()
	switch {
	case d.wanted != nil:
		return d.recordError("a layout behind the first file")
	case kind == keysRecord:
		// The keyring is first and bounded, so a stream can't ask for any amount of memory.
		if !encrypted || d.unlocked || len(d.keys) > mostKeys {
			return d.recordError("a keyring that doesn't belong here")
		}
		d.keys = append(d.keys, d.stored...)
		return nil
	}
	if !d.unlocked {
		if err := d.openLayoutKey(); err != nil {
			return err
		}
	}
	if encrypted {
		return d.decryptLayout()
	}
	d.edit = append(d.edit, d.stored...)
	return nil
}

// beginFile begins a file.
func (d *reader) beginFile() error {
	if err := d.endPart(); err != nil {
		return err
	}
	f, kept, ok := decodeFile(d.stored)
	size, named := d.wanted[f.Name]
	switch {
	case !ok:
		return d.recordError("%v, file %d of %d bytes", f.Name.Kind, f.Name.Number, f.Size)
	case d.there[f.Name] || !named && d.layout != nil:
		return d.recordError("%s is not in the layout, or twice in the stream", f.Name)
	case named && size >= 0 && size != f.Size:
		return d.recordError("%s has %d bytes, and %d in the layout", f.Name, f.Size, size)
	case f.Size > 1<<62-d.bytes:
		return d.recordError("%s is too long", f.Name)
	// Without its bytes the file can only be that of the stream before.
	case kept && d.had != nil && d.had[f.Name] != f:
		return d.recordError("%s is not in the backup before", f.Name)
	}
	d.there[f.Name] = true
	d.info.Files = append(d.info.Files, f)
	d.bytes += f.Size
	if kept {
		return nil
	}
	d.info.Sent++
	d.file, d.left = f, f.Size
	return d.createFile()
}

// endPart ends the file before, if there is one, or else the layout.
func (d *reader) endPart() error {
	if d.wanted == nil {
		return d.decodeLayout()
	}
	if d.left > 0 {
		return d.recordError("a file lacks %d bytes", d.left)
	}
	return d.closeFile()
}

// decodeLayout makes the layout of the edit that was read, once all of it is there.
func (d *reader) decodeLayout() (err error) {
	d.wanted = make(map[filename.Name]int64)
	if !d.header.KeyID.IsZero() {
		if !d.unlocked {
			return d.recordError("no layout")
		}
		// Without keys the files are checked by their checksums alone.
		if d.dec == nil {
			return nil
		}
		if err := d.splitLayout(); err != nil {
			return err
		}
	}
	edit, err := manifest.DecodeEdit(d.edit)
	if errors.Is(err, errs.ErrFormat) { // of a later release
		return err
	}
	if err == nil {
		// Apply checks that the layout is one that a store can have.
		d.layout, err = layout.New().Apply(edit)
	}
	if err != nil {
		return d.recordError("layout: %v", err)
	}
	if d.layout.LastVersion() != d.header.Version {
		return d.recordError("layout of version %d, want %d", d.layout.LastVersion(), d.header.Version)
	}
	d.edit = nil
	for f := range d.layout.Files() {
		d.wanted[f.Name] = f.Size
	}
	return nil
}

// checkEnding handles the end record.
func (d *reader) checkEnding() error {
	if err := d.endPart(); err != nil {
		return err
	}
	// The end says how much there was, so a stream that lost records in the middle is found as well
	// as one that was cut.
	d.digest.Sum(d.info.Digest[:0])
	var got ending
	decodeFields(d.stored, &got)
	want := ending{Files: uint64(len(d.info.Files)), Bytes: uint64(d.bytes), Records: d.records, Digest: d.info.Digest}
	switch {
	case got != want:
		return d.recordError("end: %d files of %d bytes, %d records, digest %x; want %d, %d, %d, %x",
			want.Files, want.Bytes, want.Records, want.Digest[:4], got.Files, got.Bytes, got.Records, got.Digest[:4])
	case len(d.there) < len(d.wanted):
		return d.recordError("%d files of the store are not there", len(d.wanted)-len(d.there))
	}
	d.info.Bytes = d.off
	return d.removeOld()
}

// readFull reads len(p) bytes.
func (d *reader) readFull(p []byte) error {
	n, err := io.ReadFull(d.r, p)
	d.off += int64(n)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errs.NewCorruption(streamName, d.off, "truncated at byte %d", d.off)
	}
	return err
}
