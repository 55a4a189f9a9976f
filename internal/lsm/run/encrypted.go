package run

import (
	"encoding/binary"
	"fmt"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/chunk"
)

// An encrypted file begins with a header page, which says so and has its file key id. Its footer
// says it again.
const (
	headerSize    = 4096 // one page
	headerMagic   = "BRKH"
	headerVersion = 1
	headerNumber  = 16             // offset of the file's number
	headerUUID    = 64             // offset of the store's UUID
	headerSum     = headerSize - 4 // offset of the checksum
)

// origin says which file of which store a run file is, and has what decrypts it.
type origin struct {
	pageio.Paged
	owner chunk.Owner     // store and number
	keyID crypt.FileKeyID // file key id; zero: the file is plain
}

// damagedPart says that the part of the file at off is damaged, because of err; nil if that is nil.
func (o *origin) damagedPart(off int64, part string, err error) error {
	if err == nil {
		return nil
	}
	return &errs.Corruption{File: o.Name, Offset: off, Reason: part, Err: err}
}

// cryptFile is the name of the file to package crypt: keys and tags are bound to it.
func cryptFile(o *chunk.Owner) crypt.File {
	return crypt.File{UUID: o.UUID, Kind: byte(filename.Run), Number: uint64(o.Num)}
}

// newHeader returns the header page of the file that owner names.
func newHeader(owner *chunk.Owner, e *crypt.Encrypter, keyID crypt.FileKeyID) ([]byte, error) {
	p := make([]byte, headerSize)
	copy(p, headerMagic)
	binary.LittleEndian.PutUint16(p[4:], headerVersion)
	binary.LittleEndian.PutUint64(p[headerNumber:], uint64(owner.Num))
	copy(p[headerUUID:], owner.UUID[:])
	err := e.PutPage(p, keyID)
	// Last: it covers what PutPage has written. Without a key it still tells damage from a plain
	// file.
	binary.LittleEndian.PutUint32(p[headerSum:], owner.ID().Sum(0, p[:headerSum]))
	return p, err
}

// checkHeader checks all of a header page but its tag.
func checkHeader(p []byte, owner *chunk.Owner) error {
	// The sum is bound to store and number: the header of another file does not pass.
	sum := binary.LittleEndian.Uint32(p[headerSum:])
	if got := owner.ID().Sum(0, p[:headerSum]); got != sum || string(p[:4]) != headerMagic {
		return fmt.Errorf("header: checksum %#x, want %#x", got, sum)
	}
	if v := binary.LittleEndian.Uint16(p[4:]); v != headerVersion {
		return fmt.Errorf("header: version %d", v)
	}
	return nil
}
