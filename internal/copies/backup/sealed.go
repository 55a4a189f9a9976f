package backup

import (
	"errors"
	"fmt"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/disk/keyring"
)

// The stream of an encrypted store has the store's files as they are, encrypted. The layout has
// keys and names: it is encrypted under the file key id that the header names. The keyring is in
// the stream, too: its data keys are wrapped.

// layoutHead is ahead of the layout in the encrypted text, as its bytes are.
type layoutHead struct {
	Length   uint64 // of the layout's edit
	Reserved uint64
	Seed     uint64 // of the key hash
}

// layoutHeadSize is the length of a layoutHead.
const layoutHeadSize = 24

// mostKeys bounds the length of a keyring in a stream, in bytes.
const mostKeys = 8 << 20

// cryptFile names the stream to its key.
func (h *header) cryptFile() crypt.File { return crypt.File{UUID: h.UUID, Kind: kind} }

// encryptPayload encrypts the payload of the next record, for which buf is, and appends the tag.
func (w *writer) encryptPayload(buf []byte) ([]byte, error) {
	at, text := w.off+recordSize, buf[recordSize:]
	if _, err := w.enc.Begin(at, int64(len(text))); err != nil {
		return nil, err
	}
	// The tag covers the header, too: version and order of the stream can't be changed without the
	// key.
	tag, err := w.enc.Encrypt(text, text, crypt.Layout, at, w.header.encodeHeader())
	return append(buf, tag[:]...), err
}

// openLayoutKey makes what decrypts the layout, once the keyring was read. Without a provider the
// layout stays unread.
func (d *reader) openLayoutKey() (err error) {
	d.unlocked = true
	if d.header.KeyID.IsZero() {
		return nil
	}
	if d.content, err = d.decodeKeys(); err != nil || d.to.Keys == nil {
		return err
	}
	if d.ring, err = d.content.Ring(d.to.Keys); err != nil {
		return err
	}
	// Asks the provider. A wrong key ends the restore here, before files are written.
	d.dec, err = d.ring.Open(d.header.cryptFile(), d.header.KeyID)
	if errors.Is(err, crypt.ErrTag) {
		return d.recordError("%v", err)
	}
	return err
}

// decodeKeys reads the keyring of a stream.
func (d *reader) decodeKeys() (*keyring.Content, error) {
	content, wrong := keyring.Decode(d.keys, d.header.UUID, 0)
	if wrong != nil {
		// The checksums of the stream are right: it was damaged when it was sent.
		return nil, fmt.Errorf("keyring of the backup: %w", wrong)
	}
	return content, nil
}

// decryptLayout decrypts a piece of the layout and appends it.
func (d *reader) decryptLayout() error {
	if d.dec == nil {
		return nil
	}
	n := len(d.stored) - crypt.TagSize
	if n <= 0 {
		return d.recordError("layout shorter than a tag")
	}
	tag, text := crypt.Tag(d.stored[n:]), d.stored[:n]
	if err := d.dec.Decrypt(text, text, &tag, crypt.Layout, d.at+recordSize, 0, d.header.encodeHeader()); err != nil {
		return d.recordError("layout: %v", err)
	}
	d.edit = append(d.edit, text...)
	return nil
}

// splitLayout divides the decrypted text into its head and the layout's edit.
func (d *reader) splitLayout() error {
	if len(d.edit) < layoutHeadSize {
		return d.recordError("layout cut")
	}
	var head layoutHead
	decodeFields(d.edit, &head)
	d.edit = d.edit[layoutHeadSize:]
	d.header.Seed = head.Seed
	if head.Length != uint64(len(d.edit)) || head.Reserved != 0 {
		return d.recordError("layout of another length")
	}
	return nil
}
