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

	"github.com/brockdb/brock/internal/base/errs"
)

// Provider keeps master keys. The public package has it as KeyProvider, and says more.
type Provider interface {
	// WrapKey encrypts a data key under the current master key.
	WrapKey(ctx context.Context, key, binding []byte) (wrapped []byte, err error)
	// UnwrapKey returns the data key of what WrapKey returned for the same binding.
	UnwrapKey(ctx context.Context, wrapped, binding []byte) (key []byte, err error)
}

// Within returns a provider that calls p. Its calls return when ctx ends, whatever p does; what p
// returns later is dropped. For a nil p it returns nil.
func Within(ctx context.Context, p Provider) Provider {
	if p == nil || ctx.Done() == nil {
		return p
	}
	return within{ctx, p}
}

// within is what Within returns.
type within struct {
	ctx context.Context
	Provider
}

// WrapKey is that of the provider, until ctx ends.
func (w within) WrapKey(_ context.Context, key, binding []byte) ([]byte, error) {
	return callWithin(w.ctx, func() ([]byte, error) { return w.Provider.WrapKey(w.ctx, key, binding) })
}

// UnwrapKey is that of the provider, until ctx ends.
func (w within) UnwrapKey(_ context.Context, wrapped, binding []byte) ([]byte, error) {
	return callWithin(w.ctx, func() ([]byte, error) { return w.Provider.UnwrapKey(w.ctx, wrapped, binding) })
}

// ended is the error of a call whose context has ended: it says nothing of the keys.
type ended struct{ cause error }

// Error says that nobody has answered.
func (e ended) Error() string { return "the provider of keys has not answered: " + e.cause.Error() }

// Unwrap returns why the context has ended.
func (e ended) Unwrap() error { return e.cause }

// callWithin returns what fn returns, or an error once ctx has ended; then fn goes on by itself. If
// fn panics before that, callWithin panics, too.
func callWithin(ctx context.Context, fn func() ([]byte, error)) (key []byte, err error) {
	type answer struct {
		key      []byte
		err      error
		panicked any
	}
	// With room for one: an answer that comes too late must not keep its goroutine for ever.
	answers := make(chan answer, 1)
	go func() {
		// This error stays if fn ends the goroutine by runtime.Goexit.
		a := answer{err: errors.New("the provider has ended its goroutine")}
		defer func() {
			a.panicked = recover()
			answers <- a
		}()
		a.key, a.err = fn()
	}()
	select {
	case a := <-answers:
		if a.panicked != nil {
			panic(a.panicked)
		}
		key, err = a.key, a.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	// Also if the provider itself gave up because of ctx: that says nothing of the key.
	if err != nil && ctx.Err() != nil {
		return nil, ended{errs.Ended(ctx)}
	}
	return key, err
}

// refusedError is the error of a call: errs.ErrKey, unless its context has ended.
func refusedError(what string, err error) error {
	if errors.As(err, new(ended)) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%w: %s: %w", errs.ErrKey, what, err)
}

const (
	masterSize = 32
	saltSize   = 16
)

// errUnwrap says no more, as GCM can't tell these cases apart.
var errUnwrap = errors.New("another master key wrapped it, it was changed, or it is of another store")

// staticKey is one master key. fmt calls no method of a value that lies in an unexported field,
// and some of its verbs follow pointers. So the key is held by a function, of which fmt prints
// the address.
type staticKey struct {
	key func() []byte
}

func newStaticKey(key []byte) *staticKey { return &staticKey{func() []byte { return key }} }

// StaticKey returns a provider of one master key of 32 bytes, which it copies. With another length
// its methods return errs.ErrInvalid.
func StaticKey(key []byte) Provider {
	// The caller may overwrite its own copy.
	return newStaticKey(append([]byte(nil), key...))
}

// WrapKey returns 16 random bytes (the salt), then the data key, encrypted under a key that is
// derived from the master key and the salt.
func (s *staticKey) WrapKey(_ context.Context, key, binding []byte) ([]byte, error) {
	salt := make([]byte, saltSize, saltSize+len(key)+16)
	if _, err := rand.Read(salt); err != nil {
		return nil, err
	}
	aead, err := s.deriveCipher(salt)
	if err != nil {
		return nil, err
	}
	// The nonce is zeros: the derived key encrypts only this, as the salt is new.
	return aead.Seal(salt, make([]byte, aead.NonceSize()), key, binding), nil
}

// UnwrapKey undoes WrapKey.
func (s *staticKey) UnwrapKey(_ context.Context, wrapped, binding []byte) ([]byte, error) {
	if len(wrapped) < saltSize {
		return nil, errUnwrap
	}
	aead, err := s.deriveCipher(wrapped[:saltSize])
	if err != nil {
		return nil, err
	}
	key, err := aead.Open(nil, make([]byte, aead.NonceSize()), wrapped[saltSize:], binding)
	if err != nil {
		return nil, errUnwrap
	}
	return key, nil
}

// deriveCipher returns the cipher under the key that is derived from the master key and the salt.
func (s *staticKey) deriveCipher(salt []byte) (cipher.AEAD, error) {
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
