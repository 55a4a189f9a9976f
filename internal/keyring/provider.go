package keyring

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/brockdb/brock/internal/errs"
)

// Provider keeps master keys. The public package has it as KeyProvider, and says more.
type Provider interface {
	// WrapKey encrypts a data key under the current master key.
	WrapKey(ctx context.Context, key, binding []byte) (wrapped []byte, err error)
	// UnwrapKey returns the data key of what WrapKey returned for the same binding.
	UnwrapKey(ctx context.Context, wrapped, binding []byte) (key []byte, err error)
}

const (
	masterSize = 32
	saltSize   = 16
)

// errUnwrap says no more, as GCM can't tell these cases apart.
var errUnwrap = errors.New("another master key wrapped it, it was changed, or it is of another store")

// staticKey is one master key. Where it is in an unexported field, fmt calls no method, and some
// verbs print what a pointer leads to: so a function has the key.
type staticKey struct {
	key func() []byte
}

func newStaticKey(key []byte) *staticKey { return &staticKey{func() []byte { return key }} }

// StaticKey returns a provider of one master key of 32 bytes, which it copies. With another length
// its methods return errs.ErrInvalid.
func StaticKey(key []byte) Provider {
	return newStaticKey(append([]byte(nil), key...))
}

// WrapKey returns 16 random bytes and the key, encrypted under a key that they and the
// master key make.
func (s *staticKey) WrapKey(_ context.Context, key, binding []byte) ([]byte, error) {
	salt := make([]byte, saltSize, saltSize+len(key)+16)
	if _, err := rand.Read(salt); err != nil {
		return nil, err
	}
	aead, err := s.aead(salt)
	if err != nil {
		return nil, err
	}
	// The key of this nonce is used once: the salt is new.
	return aead.Seal(salt, make([]byte, aead.NonceSize()), key, binding), nil
}

func (s *staticKey) UnwrapKey(_ context.Context, wrapped, binding []byte) ([]byte, error) {
	if len(wrapped) < saltSize {
		return nil, errUnwrap
	}
	aead, err := s.aead(wrapped[:saltSize])
	if err != nil {
		return nil, err
	}
	key, err := aead.Open(nil, make([]byte, aead.NonceSize()), wrapped[saltSize:], binding)
	if err != nil {
		return nil, errUnwrap
	}
	return key, nil
}

func (s *staticKey) aead(salt []byte) (cipher.AEAD, error) {
	master := s.key()
	if len(master) != masterSize {
		return nil, fmt.Errorf("%w: a master key of %d bytes; it has %d", errs.ErrInvalid, len(master), masterSize)
	}
	key, err := hkdf.Key(sha256.New, master, salt, "brock wrap 1", masterSize)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

const staticName = "brock.StaticKey"

// Format, LogValue and MarshalText tell nothing of the key, however s is printed.
func (*staticKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, staticName) }

// LogValue is what package slog shows.
func (*staticKey) LogValue() slog.Value { return slog.StringValue(staticName) }

// MarshalText is what package json shows.
func (*staticKey) MarshalText() ([]byte, error) { return []byte(staticName), nil }
