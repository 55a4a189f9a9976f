package backup

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/brockdb/brock/internal/checkpoint"
	"github.com/brockdb/brock/internal/crypt"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/keyring"
)

// The stream of an encrypted store has the store's files as they are, encrypted. The layout has
// keys and names: it is encrypted under the life that the header names. The keyring is in the
// stream, too: its data keys are wrapped.

// describeHead is the length of what is ahead of the layout in the encrypted text: u64 length of
// the layout's edit, u64 reserved, u64 seed of the key hash.
const describeHead = 24

// mostKeys bounds the length of a keyring in a stream, in bytes.
const mostKeys = 8 << 20

// file names the stream to its key.
func (h *header) file() crypt.File { return crypt.File{UUID: h.uuid, Kind: kind} }

// seal prepares the stream of an encrypted store: it draws the life of the stream, and reads the
// keyring. It does nothing for a plain store.
func (w *writer) seal(s *checkpoint.Source) error {
	if s.Ring == nil {
		return nil
	}
	w.keys = s.Keys
	var err error
	if w.enc, w.header.life, err = s.Ring.New(w.header.file()); err != nil {
		return err
	}
	w.header.seed, w.seed = 0, s.Seed
	w.compress = false // encrypted bytes don't shrink
	return nil
}

// sealed writes the keyring, and the layout encrypted.
func (w *writer) sealed(edit []byte) error {
	if err := w.pieces(keysRecord, w.keys.Encode()); err != nil {
		return err
	}
	text := binary.LittleEndian.AppendUint64(nil, uint64(len(edit)))
	text = binary.LittleEndian.AppendUint64(text, 0) // reserved
	text = binary.LittleEndian.AppendUint64(text, w.seed)
	text = append(text, edit...)
	header := w.header.encode()
	for len(text) > 0 {
		n := min(len(text), pieceBytes-crypt.TagSize)
		buf := append(make([]byte, recordSize, recordSize+n+crypt.TagSize), text[:n]...)
		at, piece := w.off+recordSize, buf[recordSize:]
		if _, err := w.enc.Begin(at, int64(n)); err != nil {
			return err
		}
		tag, err := w.enc.Encrypt(piece, piece, crypt.Layout, at, header)
		if err != nil {
			return err
		}
		stored := uint32(n + crypt.TagSize)
		if err := w.record(record{kind: layoutRecord, stored: stored, length: stored}, append(buf, tag[:]...)); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// unlock makes what decrypts the layout, once the keyring was read. Without a provider the
// layout stays unread.
func (d *reader) unlock() error {
	d.unlocked = true
	if d.header.life.IsZero() {
		return nil
	}
	content, err := decodeKeys(d.keys, d.header.uuid)
	if err != nil {
		return err
	}
	d.keys = nil
	if d.provider == nil {
		return d.to.keys(content, nil)
	}
	ring, err := content.Ring(d.provider)
	if err != nil {
		return err
	}
	d.dec, err = ring.Open(d.header.file(), d.header.life)
	if errors.Is(err, crypt.ErrTag) {
		return errStream(err.Error())
	}
	if err != nil {
		return err
	}
	return d.to.keys(content, ring)
}

// decodeKeys reads the keyring of a stream.
func decodeKeys(p []byte, uuid [16]byte) (*keyring.Content, error) {
	const numberAt = 32
	if len(p) < numberAt+8 {
		return nil, errStream("no keyring")
	}
	content, wrong := keyring.Decode(p, uuid, entry.FileNum(binary.LittleEndian.Uint64(p[numberAt:])))
	if len(wrong) > 0 {
		// The checksums of the stream are right: it was damaged when it was sent.
		return nil, fmt.Errorf("keyring of the backup: %w", errors.Join(wrong...))
	}
	return content, nil
}

// fit returns errs.ErrKey for a plain stream after an encrypted one. The opposite is allowed:
// EncryptStore came between them.
func (d *reader) fit(h *header) error {
	if h.life.IsZero() && d.header != nil && !d.header.life.IsZero() {
		return fmt.Errorf("%w: a plain backup follows an encrypted one", errs.ErrKey)
	}
	return nil
}

// fits returns errs.ErrKey if there is a provider and the last stream is plain.
func (d *reader) fits() error {
	if d.header.life.IsZero() && d.provider != nil {
		return fmt.Errorf("%w: Keys is set, and the backup is plain: restore it without Keys, and encrypt the new store", errs.ErrKey)
	}
	return nil
}

// decrypt decrypts a piece of the layout and appends it. at is the offset of its payload in the
// stream.
func (d *reader) decrypt(at int64) error {
	if d.dec == nil {
		return nil
	}
	n := len(d.stored) - crypt.TagSize
	if n <= 0 {
		return errStream("layout shorter than a tag")
	}
	tag, text := crypt.Tag(d.stored[n:]), d.stored[:n]
	if err := d.dec.Decrypt(text, text, &tag, crypt.Layout, at, 0, d.header.encode()); err != nil {
		return errStream("layout: " + err.Error())
	}
	d.edit = append(d.edit, text...)
	return nil
}

// opened divides the decrypted text into layout and seed.
func (d *reader) opened() error {
	p := d.edit
	if len(p) < describeHead {
		return errStream("layout cut")
	}
	edit, reserved := binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:])
	d.header.seed = binary.LittleEndian.Uint64(p[16:])
	p = p[describeHead:]
	if edit != uint64(len(p)) || reserved != 0 {
		return errStream("layout of another length")
	}
	d.edit = p
	return nil
}
