package crypt

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Segments, forwarding tables and encrypted runs begin with a page of 4096 bytes. In all three
// these bytes are in the same places.
const (
	pageBytes     = 4096
	pageFlags     = 6 // u16
	pageEncrypted = 1 // of the flags

	keyIDAt    = 128
	keyIDMagic = "BRKE"
	// FrameTagAt is where the page has the tag of the last frame before its first one.
	FrameTagAt = 168
	pageTagAt  = 192
)

// PutPage writes into the header page p, which begins the file, what a reader needs to
// decrypt the file, and a tag of bytes 0 to 191. Fill in all other fields of these bytes
// before, and the checksum of the page after it.
func (e *Encrypter) PutPage(p []byte, id FileKeyID) error {
	if attempt, err := e.Begin(0, pageBytes); err != nil || attempt != 0 {
		return errors.Join(err, fmt.Errorf("encrypt: a header page in attempt %d, which no reader expects", attempt))
	}
	binary.LittleEndian.PutUint16(p[pageFlags:], binary.LittleEndian.Uint16(p[pageFlags:])|pageEncrypted)
	copy(p[keyIDAt:], keyIDMagic)
	p[keyIDAt+4] = byte(id.Cipher)
	copy(p[keyIDAt+8:], id.Key[:])
	copy(p[keyIDAt+24:], id.Salt[:])
	// The page stays readable without keys, and nobody can change it without them.
	tag, err := e.Encrypt(nil, nil, Header, 0, p[:pageTagAt])
	copy(p[pageTagAt:], tag[:])
	return err
}

// PageKeyID is the file key id that the header page p names, whose checksum is right; zero if it
// is that of a plain file. An error says that p is not what PutPage writes.
func PageKeyID(p []byte) (id FileKeyID, err error) {
	if binary.LittleEndian.Uint16(p[pageFlags:])&pageEncrypted == 0 {
		return id, nil
	}
	id.Cipher = Cipher(p[keyIDAt+4])
	copy(id.Key[:], p[keyIDAt+8:])
	copy(id.Salt[:], p[keyIDAt+24:])
	if string(p[keyIDAt:][:4]) != keyIDMagic || id.IsZero() {
		return FileKeyID{}, fmt.Errorf("header page without a file key id")
	}
	return id, nil
}

// CheckPage compares the tag of a header page. It returns ErrTag.
func (d *Decrypter) CheckPage(p []byte) error {
	tag := Tag(p[pageTagAt:])
	return d.Decrypt(nil, nil, &tag, Header, 0, 0, p[:pageTagAt])
}
