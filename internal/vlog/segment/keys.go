package segment

import (
	"errors"
	"fmt"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
)

// How the key of an encrypted segment or forwarding table is found: by the file key id that its
// header page names.

// cryptFile identifies a file to crypt, which derives its key from that.
func (c *Config) cryptFile(k filename.Kind, n entry.FileNum) crypt.File {
	return crypt.File{UUID: c.UUID, Kind: byte(k), Number: uint64(n)}
}

// newEncrypter draws a file key id for a file that begins one. In a plain store it returns nil.
func (c *Config) newEncrypter(k filename.Kind, n entry.FileNum) (*crypt.Encrypter, crypt.FileKeyID, error) {
	if c.Ring == nil {
		return nil, crypt.FileKeyID{}, nil
	}
	return c.Ring.New(c.cryptFile(k, n))
}

// openDecrypter returns what decrypts this file key id of a file: nil for a plain one. It returns
// errs.ErrKey if there are no keys, or that of the file key id can't be had, and ErrHeader if the
// file key id can't be right.
func (c *Config) openDecrypter(k filename.Kind, n entry.FileNum, keyID crypt.FileKeyID) (*crypt.Decrypter, error) {
	if keyID.IsZero() {
		return nil, nil
	}
	if c.Ring == nil {
		return nil, fmt.Errorf("%w: the file is encrypted", errs.ErrKey)
	}
	d, err := c.Ring.Open(c.cryptFile(k, n), keyID)
	if errors.Is(err, crypt.ErrTag) {
		return nil, fmt.Errorf("%w: %w", ErrHeader, err)
	}
	return d, err
}
