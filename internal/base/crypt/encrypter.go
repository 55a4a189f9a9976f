package crypt

import "fmt"

// Encrypter encrypts one file. It belongs to the goroutine that writes the
// file.
type Encrypter struct {
	s         sealer
	from, end int64  // what the last Begin was given
	high      int64  // end of the last piece that was begun, also after an error
	attempt   uint32 // raised each time that an offset comes back
}

// MaxAttempt bounds attempts. A record has 17 bits for them, of which Salvage relies on the
// lowest ten: random bytes say more in most cases, and so are soon known to be no record. A
// journal segment ends with a refused frame; in a value segment only what can't be read of an
// old store is followed by another attempt.
const MaxAttempt = 1<<10 - 1

// Begin says that the size bytes at offset are encrypted next. It returns the attempt,
// which their reader needs: it is another one each time that an offset may come back. So
// call it before each try to write a piece of the file (a frame, a chunk), and encrypt
// each unit of it once.
func (e *Encrypter) Begin(offset, size int64) (attempt uint32, err error) {
	e.from, e.end = 0, 0 // nothing can be encrypted after an error
	if offset < 0 || size < 0 || offset+size < offset {
		return 0, fmt.Errorf("encrypt: %d bytes at %d", size, offset)
	}
	if offset < e.high {
		if e.attempt == MaxAttempt {
			return 0, fmt.Errorf("encrypt: a file was written over %d times", MaxAttempt)
		}
		// Some bytes from here on may have been encrypted before, though perhaps never written. A
		// nonce that comes back with other bytes would give them away.
		e.attempt++
	}
	// In this attempt, nothing behind that was encrypted.
	e.from, e.end, e.high = offset, offset+size, offset+size
	return e.attempt, nil
}

// Encrypt encrypts text, the unit u at offset, into dst, and returns its tag, which
// covers data too. dst has the length of text, or is text, and 16 bytes of capacity
// behind: these are used and put back. An offset outside of what Begin was given last is
// an error, as it could give the key away: stop writing the file.
func (e *Encrypter) Encrypt(dst, text []byte, u Unit, offset int64, data []byte) (Tag, error) {
	// A unit of no bytes must not lie at the end either: what is begun there next has the
	// same attempt.
	// Outside of what was begun an earlier attempt may have used the same nonce.
	if offset < e.from || offset >= e.end || int64(len(text)) > e.end-offset {
		return Tag{}, fmt.Errorf("encrypt: %d bytes at %d are outside of %d to %d", len(text), offset, e.from, e.end)
	}
	return e.s.sealUnit(dst, text, u, offset, e.attempt, data), nil
}

// Decrypter decrypts one file. Any number of goroutines may use it.
type Decrypter struct {
	s sealer
}

// Decrypt decrypts b, the unit u at offset, into dst, which has the length of b or is b.
// b has 16 bytes of capacity behind: these are used and put back, so nobody else may
// touch them meanwhile. A tag that doesn't fit is ErrTag, and dst is zeros then. It
// doesn't allocate.
func (d *Decrypter) Decrypt(dst, b []byte, tag *Tag, u Unit, offset int64, attempt uint32, data []byte) error {
	return d.s.openUnit(dst, b, tag, u, offset, attempt, data)
}
