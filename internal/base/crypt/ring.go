package crypt

import (
	"crypto/rand"
	"fmt"
	"io"
	"sync"
)

// DataKey is a key from which the keys of files are derived.
type DataKey struct {
	ID     ID
	Cipher Cipher // of all that is encrypted under keys derived from it
	Key    [KeySize]byte
}

// String returns the ID, and never the key, so that the key gets into no log.
func (k DataKey) String() string { return fmt.Sprintf("data key %x", k.ID) }

// Format prints k as String does, for every verb.
func (k DataKey) Format(f fmt.State, _ rune) { io.WriteString(f, k.String()) }

// Ring has the data keys of a store. Any number of goroutines may use it.
type Ring struct {
	random io.Reader                 // source of salts
	unwrap func(ID) (DataKey, error) // asks the provider for a data key

	mu      sync.Mutex      // guards what follows
	keys    map[ID]*ringKey // those that were asked for
	current *DataKey        // for new files; nil before SetCurrent
}

// ringKey is the place of one data key.
type ringKey struct {
	mu  sync.Mutex // held while unwrap is asked, which may take seconds
	key *DataKey   // nil: not unwrapped yet
}

// NewRing returns a Ring without a current key. It asks unwrap for a data key when that is
// needed for the first time, and returns the errors of unwrap as they are. Calls that need the
// same key meanwhile wait for the answer; all others go on. random draws salts: nil is
// crypto/rand.Reader, all else is for tests.
func NewRing(random io.Reader, unwrap func(ID) (DataKey, error)) *Ring {
	if random == nil {
		random = rand.Reader
	}
	return &Ring{random: random, unwrap: unwrap, keys: map[ID]*ringKey{}}
}

// NewDataKey draws a data key from random (nil: crypto/rand.Reader).
func NewDataKey(random io.Reader, c Cipher) (DataKey, error) {
	if random == nil {
		random = rand.Reader
	}
	k := DataKey{Cipher: c}
	if _, err := io.ReadFull(random, k.ID[:]); err != nil {
		return k, err
	}
	_, err := io.ReadFull(random, k.Key[:])
	return k, err
}

// Current returns the data key for new files: the zero ID before SetCurrent.
func (r *Ring) Current() ID {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == nil {
		return ID{}
	}
	return r.current.ID
}

// SetCurrent makes id the data key for new files and units. On an error, nothing has
// changed.
func (r *Ring) SetCurrent(id ID) error {
	k, err := r.getKey(id)
	if err != nil {
		return err
	}
	// A cipher that the process may not use is found here, before a file is made.
	if _, err := k.Cipher.newAEAD(k.Key[:]); err != nil {
		return fmt.Errorf("%v: %w", k.Cipher, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = k
	return nil
}

// Put adds a data key, so that unwrap need not be asked for it.
func (r *Ring) Put(k DataKey) {
	p := r.placeOf(k.ID)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key = &k
}

// placeOf returns the place of a data key.
func (r *Ring) placeOf(id ID) *ringKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.keys[id]
	if p == nil {
		p = new(ringKey)
		r.keys[id] = p
	}
	return p
}

// getKey returns a data key that is there, or asks for it.
func (r *Ring) getKey(id ID) (*DataKey, error) {
	p := r.placeOf(id)
	// One call at a time asks the provider, which may cost money. If it failed, the next one asks
	// again: the reason may concern only that call.
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.key != nil {
		return p.key, nil
	}
	k, err := r.unwrap(id)
	if err != nil {
		return nil, err
	}
	// Else files would be encrypted under a key that nobody finds again.
	if k.ID != id || !k.Cipher.Valid() {
		return nil, fmt.Errorf("%v was given for data key %x, with %v", k, id, k.Cipher)
	}
	p.key = &k
	return p.key, nil
}

// drawSealer draws a file key id of f under the current data key. It returns the sealer of that key
// or, with an offset, of the key of the one unit there.
func (r *Ring) drawSealer(f File, offset ...int64) (s sealer, id FileKeyID, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == nil {
		return s, id, fmt.Errorf("no data key is current")
	}
	id = FileKeyID{Key: r.current.ID, Cipher: r.current.Cipher}
	// Under the lock: a reader given by tests is not safe for several goroutines.
	if _, err := io.ReadFull(r.random, id.Salt[:]); err != nil {
		return s, id, err
	}
	s, err = r.current.sealerOf(f, id, offset...)
	return s, id, err
}

// findSealer is drawSealer for a file key id that was read from a file.
func (r *Ring) findSealer(f File, id FileKeyID, offset ...int64) (s sealer, err error) {
	k, err := r.getKey(id.Key)
	if err != nil {
		return s, err
	}
	if k.Cipher != id.Cipher {
		return s, fmt.Errorf("%w: %v of a data key for %v", ErrTag, id.Cipher, k.Cipher)
	}
	return k.sealerOf(f, id, offset...)
}

// New draws a file key id for the file f, which is about to be created, and returns
// what encrypts it. This is the only way to an Encrypter: nothing encrypts under a file key id
// that was read, so no second process, no copy of the store and no later session can
// use a nonce again.
func (r *Ring) New(f File) (*Encrypter, FileKeyID, error) {
	s, id, err := r.drawSealer(f)
	if err != nil {
		return nil, FileKeyID{}, err
	}
	return &Encrypter{s: s}, id, nil
}

// Open returns what decrypts the file f with this file key id. Its error is that of the Ring's
// unwrap, or wraps ErrTag if id can't be right.
func (r *Ring) Open(f File, id FileKeyID) (*Decrypter, error) {
	s, err := r.findSealer(f, id)
	if err != nil {
		return nil, err
	}
	return &Decrypter{s: s}, nil
}

// EncryptOnce encrypts a unit under a key of its own: one that a later session may append
// to a file of an earlier one. dst and text are as for Encrypter.Encrypt.
func (r *Ring) EncryptOnce(dst, text []byte, f File, u Unit, offset int64, data []byte) (Tag, FileKeyID, error) {
	s, id, err := r.drawSealer(f, offset)
	if err != nil {
		return Tag{}, FileKeyID{}, err
	}
	// The nonce is zeros: the key encrypts nothing else.
	return s.sealUnit(dst, text, u, 0, 0, data), id, nil
}

// DecryptOnce decrypts what EncryptOnce made. dst, text and tag are as for
// Decrypter.Decrypt, and so is ErrTag; other errors are those of Open.
func (r *Ring) DecryptOnce(dst, text []byte, tag *Tag, f File, id FileKeyID, u Unit, offset int64, data []byte) error {
	s, err := r.findSealer(f, id, offset)
	if err != nil {
		return err
	}
	return s.openUnit(dst, text, tag, u, 0, 0, data)
}
