package run

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/brockdb/brock/internal/checksum"
	"github.com/brockdb/brock/internal/crypt"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/internal/run/chunk"
)

// An encrypted file begins with a header page, which says so and names its life. Its
// footer says it again.
const (
	headerSize    = 4096
	headerMagic   = "BRKH"
	headerVersion = 1
	headerNumber  = 16
	headerUUID    = 64
	headerSum     = headerSize - 4
)

// origin says which file of which store it is, and what decrypts it.
type origin struct {
	name  string
	owner chunk.Owner
	id    checksum.Identity
	life  crypt.Life
	key   *crypt.Decrypter // nil: the file is plain
}

func cryptFile(o *chunk.Owner) crypt.File {
	return crypt.File{UUID: o.UUID, Kind: byte(filename.Run), Number: uint64(o.Num)}
}

// origin is that of file num, if it has this life.
func (cfg *OpenConfig) origin(num entry.FileNum, life crypt.Life) (origin, error) {
	o := origin{name: filename.Of(filename.Run, num), owner: chunk.Owner{UUID: cfg.UUID, Num: num}, life: life}
	o.id = o.owner.ID()
	switch {
	case life.IsZero():
		return o, nil
	case cfg.Ring == nil:
		return o, fmt.Errorf("%w: %s is encrypted, and there are no keys", errs.ErrInvalid, o.name)
	}
	key, err := cfg.Ring.Open(cryptFile(&o.owner), life)
	if errors.Is(err, crypt.ErrTag) {
		err = &errs.Corruption{File: o.name, Offset: -1, Reason: "life of the file", Err: err}
	}
	o.key = key
	return o, err
}

// find is origin for a file of which nothing is known: it says itself what it is.
func (cfg *OpenConfig) find(f *pageio.File, num entry.FileNum) (origin, error) {
	o := chunk.Owner{UUID: cfg.UUID, Num: num}
	page := make([]byte, headerSize)
	if f.ReadFull(page, 0) == nil && checkHeader(page, &o) == nil {
		if life, err := crypt.PageLife(page); err == nil {
			return cfg.origin(num, life)
		}
	}
	if ft := findFooter(f, o.ID()); ft != nil {
		return cfg.origin(num, ft.life)
	}
	return cfg.origin(num, crypt.Life{})
}

// findFooter is the footer of an encrypted file; nil: there is none.
func findFooter(f *pageio.File, id checksum.Identity) *footer {
	b := make([]byte, encryptedFooterSize)
	at := f.Size() - encryptedFooterSize
	if at < 0 || f.ReadFull(b, at) != nil {
		return nil
	}
	ft, err := decodeFooter(b, id, at, "")
	if err != nil {
		return nil
	}
	return ft
}

// header is the header page of a file of owner.
func header(owner *chunk.Owner, e *crypt.Encrypter, life crypt.Life) ([]byte, error) {
	p := make([]byte, headerSize)
	copy(p, headerMagic)
	binary.LittleEndian.PutUint16(p[4:], headerVersion)
	binary.LittleEndian.PutUint64(p[headerNumber:], uint64(owner.Num))
	copy(p[headerUUID:], owner.UUID[:])
	err := e.PutPage(p, life)
	binary.LittleEndian.PutUint32(p[headerSum:], owner.ID().Sum(0, p[:headerSum]))
	return p, err
}

// checkHeader checks all of a header page but its tag.
func checkHeader(p []byte, owner *chunk.Owner) error {
	sum := binary.LittleEndian.Uint32(p[headerSum:])
	if got := owner.ID().Sum(0, p[:headerSum]); got != sum || string(p[:4]) != headerMagic {
		return fmt.Errorf("header: checksum %#x, want %#x", got, sum)
	}
	if v := binary.LittleEndian.Uint16(p[4:]); v != headerVersion {
		return fmt.Errorf("header: version %d", v)
	}
	return nil
}

// verifyHeader reads the header page again.
func (f *file) verifyHeader() error {
	if f.key == nil {
		return nil
	}
	p := make([]byte, headerSize)
	if err := f.ReadFull(p, 0); err != nil {
		return err
	}
	err := checkHeader(p, &f.owner)
	if err == nil {
		err = f.key.CheckPage(p)
	}
	if err != nil {
		return &errs.Corruption{File: f.name, Offset: 0, Reason: "header", Err: err}
	}
	return nil
}

func (o *origin) footerSize() int {
	if o.key != nil {
		return encryptedFooterSize
	}
	return footerSize
}

// The footer of an encrypted file is that of a plain one, with another version, its
// cipher in reserved bytes and without the directory's checksum; and then:
const (
	encryptedFooterSize = 128
	encryptedVersion    = 2

	footerCipher = 12
	footerDirTag = 64
	footerTag    = 80
	footerKey    = 96
	footerLife   = 112
)

// footerData is what the tag of the footer b covers.
func footerData(b []byte) []byte {
	return append(bytes.Clone(b[4:footerTag]), b[footerKey:encryptedFooterSize]...)
}

// encrypt makes the footer of an encrypted file of b, that of a plain one.
func (f *footer) encrypt(b []byte, e *crypt.Encrypter, offset int64) ([]byte, error) {
	b = append(b, make([]byte, encryptedFooterSize-footerSize)...)
	b[8], b[footerCipher] = encryptedVersion, byte(f.life.Cipher)
	copy(b[footerDirTag:], f.dirTag[:])
	copy(b[footerKey:], f.life.Key[:])
	copy(b[footerLife:], f.life.Life[:])
	if err := chunk.Begin(e, offset, len(b)); err != nil {
		return nil, err
	}
	tag, err := e.Encrypt(nil, nil, crypt.Footer, offset, footerData(b))
	copy(b[footerTag:], tag[:])
	return b, err
}

// decodeLife decodes what the footer of a plain file doesn't have.
func (f *footer) decodeLife(b []byte) {
	f.dirTag = crypt.Tag(b[footerDirTag:])
	f.life = crypt.Life{Key: crypt.ID(b[footerKey:]), Life: [16]byte(b[footerLife:]), Cipher: crypt.Cipher(b[footerCipher])}
}

// verify compares the tag of the footer b, which lies at offset, and its life with those
// that are expected.
func (o *origin) verify(ft *footer, b []byte, offset int64) error {
	if o.key == nil {
		return nil
	}
	if ft.life != o.life {
		return errs.NewCorruption(o.name, offset, "footer: another life than expected")
	}
	tag := crypt.Tag(b[footerTag:])
	if err := o.key.Decrypt(nil, nil, &tag, crypt.Footer, offset, 0, footerData(b)); err != nil {
		return &errs.Corruption{File: o.name, Offset: offset, Reason: "footer", Err: err}
	}
	return nil
}

// tagFilters gives the filters of an encrypted file their tags, which lie in b in the order
// of the filters in the file, one for each page.
func (d *directory) tagFilters(b []byte) error {
	for _, f := range d.filters() {
		n := f.pages() * crypt.TagSize
		if uint64(len(b)) < n {
			return fmt.Errorf("no tags for the filter at %d", f.offset)
		}
		f.tags, b = b[:n:n], b[n:]
	}
	if len(b) > 0 {
		return fmt.Errorf("%d bytes of tags for no filter", len(b))
	}
	return nil
}

// filters are those of the file.
func (d *directory) filters() (list []*filterRecord) {
	for i := range d.parts {
		list = append(list, &d.parts[i])
	}
	if d.filter.words > 0 {
		list = append(list, &d.filter)
	}
	return list
}

// pages is the number of the filter's pages, each of which has a tag.
func (f *filterRecord) pages() uint64 { return (f.words*8 + chunk.PageSize - 1) / chunk.PageSize }

// encrypt encrypts a filter, which begins at r.offset and has Room behind, page by page.
func (r *filterRecord) encrypt(f []byte, e *crypt.Encrypter) error {
	if err := chunk.Begin(e, int64(r.offset), len(f)); err != nil {
		return err
	}
	for at := 0; at < len(f); at += chunk.PageSize {
		page := f[at:min(at+chunk.PageSize, len(f))]
		tag, err := e.Encrypt(page, page, crypt.Filter, int64(r.offset)+int64(at), nil)
		if err != nil {
			return err
		}
		r.tags = append(r.tags, tag[:]...)
	}
	return nil
}

// decrypt decrypts the filter in f, which has Room behind, in place.
func (o *origin) decryptFilter(r *filterRecord, f []byte) error {
	for at := 0; at < len(f); at += chunk.PageSize {
		page := f[at:min(at+chunk.PageSize, len(f))]
		tag := crypt.Tag(r.tags[at/chunk.PageSize*crypt.TagSize:])
		if err := o.key.Decrypt(page, page, &tag, crypt.Filter, int64(r.offset)+int64(at), 0, nil); err != nil {
			return &errs.Corruption{File: o.name, Offset: int64(r.offset) + int64(at), Reason: "filter", Err: err}
		}
	}
	return nil
}

// readEncrypted reads and decrypts a filter into memory of its own.
func (f *file) readEncrypted(at *filterRecord) (*pageio.Summed, error) {
	n := at.words * 8
	if int64(n) > f.Size() {
		return nil, errs.NewCorruption(f.name, int64(at.offset), "filter of %d bytes", n)
	}
	b := make([]byte, n, n+chunk.Room)
	if err := f.ReadFull(b, int64(at.offset)); err != nil {
		return nil, err
	}
	if err := f.decryptFilter(at, b); err != nil {
		return nil, err
	}
	return f.Private(int64(at.offset), b), nil
}
