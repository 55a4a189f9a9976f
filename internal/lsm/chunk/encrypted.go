package chunk

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/disk/pageio"
)

// Chunks of an encrypted file have the same parts in the same places. Their pages are encrypted one
// by one; so is the trailer as a whole, but for its first trailerClear bytes: the tag of the rest,
// zeros in the place of the checksum, and the length, by which a trailer is found without a
// directory.
const trailerClear = crypt.TagSize + 8

// Room is how much memory there must be behind a chunk that is decrypted in place.
const Room = crypt.TagSize

// beginUnit is e.Begin for the next size bytes of a run. A run is written from front to back, and
// no byte twice: so the attempt is always 0, and readers need not know it.
func beginUnit(e *crypt.Encrypter, offset int64, size int) error {
	attempt, err := e.Begin(offset, int64(size))
	if err == nil && attempt != 0 {
		err = fmt.Errorf("encrypt run: attempt %d at %d", attempt, offset)
	}
	return err
}

// Encrypt encrypts text, of a part of size bytes that will lie at offset, in place, and returns its
// tag, which covers data, too. There is Room behind text.
func Encrypt(text []byte, unit crypt.Unit, offset int64, size int, data []byte, e *crypt.Encrypter) (tag crypt.Tag, err error) {
	if err := beginUnit(e, offset, size); err != nil {
		return tag, err
	}
	return e.Encrypt(text, text, unit, offset, data)
}

// EncryptPages encrypts b, which will lie at offset, in place, and appends the tag of each page to
// tags. There is Room behind b.
func EncryptPages(tags, b []byte, unit crypt.Unit, offset int64, e *crypt.Encrypter) ([]byte, error) {
	err := beginUnit(e, offset, len(b))
	// Page by page: a get decrypts one page, not the chunk.
	for at := 0; at < len(b) && err == nil; at += PageSize {
		page := b[at:min(at+PageSize, len(b))]
		var tag crypt.Tag
		tag, err = e.Encrypt(page, page, unit, offset+int64(at), nil)
		tags = append(tags, tag[:]...)
	}
	return tags, err
}

// encryptTrailer encrypts the trailer t, which will lie at offset.
func encryptTrailer(t []byte, offset int64, e *crypt.Encrypter) error {
	// The length stays clear, as a salvage searches by it; but the tag covers it, so it is proven.
	tag, err := Encrypt(t[trailerClear:], crypt.Trailer, offset, len(t), t[crypt.TagSize:trailerClear], e)
	copy(t, tag[:])
	return err
}

// proveTrailer compares the trailer t, at offset of the file f, with its checksum, or decrypts it
// in place; then there is Room behind.
func proveTrailer(t []byte, f *pageio.Paged, offset int64) error {
	if f.Key == nil {
		if got, want := f.ID.Sum(offset, t[4:]), binary.LittleEndian.Uint32(t); got != want {
			return fmt.Errorf("checksum %#x, want %#x", got, want)
		}
		return nil
	}
	tag, text := crypt.Tag(t), t[trailerClear:]
	return f.Key.Decrypt(text, text, &tag, crypt.Trailer, offset, 0, t[crypt.TagSize:trailerClear])
}

// Decrypt decrypts the chunk in place, for a dump: Data has Room behind. What is damaged stays as
// it is in the file.
func (c *Chunk) Decrypt() {
	// Decryption in place destroys what it can't decrypt, and a dump shows what the file has.
	start, kept := c.TrailerStart(), bytes.Clone(c.Data)
	t, err := c.Trailer()
	if err != nil {
		copy(c.Data[start:], kept[start:])
		return
	}
	for p := range c.pages() {
		if t.body.VerifyPages(p, 1) != nil {
			copy(c.Data[p<<pageShift:][:PageSize], kept[p<<pageShift:])
		}
	}
}
