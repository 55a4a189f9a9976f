package y

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/cespare/xxhash/v2"

	"github.com/brockdb/brock/compat/badger/pb"
)

// CastagnoliCrcTable is the table of CRC-32C.
var CastagnoliCrcTable = crc32.MakeTable(crc32.Castagnoli)

// ErrChecksumMismatch is the error of VerifyChecksum.
var ErrChecksumMismatch = errors.New("checksum mismatch")

// errBlockLength is the error for an iv that is not of aes.BlockSize, or a dst that is too small.
var errBlockLength = errors.New("wrong length of iv or destination")

// CalculateChecksum returns the checksum of data.
func CalculateChecksum(data []byte, kind pb.Checksum_Algorithm) uint64 {
	switch kind {
	case pb.Checksum_CRC32C:
		return uint64(crc32.Checksum(data, CastagnoliCrcTable))
	case pb.Checksum_XXHash64:
		return xxhash.Sum64(data)
	default:
		panic("checksum type not supported")
	}
}

// VerifyChecksum returns an error with ErrChecksumMismatch in it if data has another checksum.
func VerifyChecksum(data []byte, expected *pb.Checksum) error {
	actual := CalculateChecksum(data, expected.Algo)
	if actual != expected.Sum {
		return Wrapf(ErrChecksumMismatch, "actual: %d, expected: %d", actual, expected.Sum)
	}
	return nil
}

// XORBlock encrypts src to dst by AES in counter mode, or decrypts it. The key has 16, 24 or 32
// bytes, the iv 16. Nothing detects a wrong key or changed bytes.
func XORBlock(dst, src, key, iv []byte) error {
	stream, err := newStream(key, iv)
	if err != nil {
		return err
	}
	if len(dst) < len(src) {
		return errBlockLength
	}
	stream.XORKeyStream(dst, src)
	return nil
}

// XORBlockAllocate is XORBlock into new memory.
func XORBlockAllocate(src, key, iv []byte) ([]byte, error) {
	dst := make([]byte, len(src))
	if err := XORBlock(dst, src, key, iv); err != nil {
		return nil, err
	}
	return dst, nil
}

// XORBlockStream is XORBlock into a writer.
func XORBlockStream(w io.Writer, src, key, iv []byte) error {
	stream, err := newStream(key, iv)
	if err != nil {
		return err
	}
	_, err = cipher.StreamWriter{S: stream, W: w}.Write(src)
	return Wrapf(err, "XORBlockStream")
}

// GenerateIV returns 16 random bytes.
func GenerateIV() ([]byte, error) {
	iv := make([]byte, aes.BlockSize)
	_, err := rand.Read(iv)
	return iv, err
}

func newStream(key, iv []byte) (cipher.Stream, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	if len(iv) != aes.BlockSize {
		return nil, fmt.Errorf("iv of %d bytes: %w", len(iv), errBlockLength)
	}
	return cipher.NewCTR(block, iv), nil
}
