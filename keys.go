package brock

import (
	"context"

	"github.com/brockdb/brock/internal/disk/keyring"
)

// KeyProvider keeps the master keys of encrypted stores (Options.Keys). A store has data keys of
// its own. It lets the provider encrypt ("wrap") them, and never sees a master key. The methods
// are Encrypt and Decrypt of a key management service, with its context. Open, RotateKey, Refresh,
// Verify and calls that copy the store call them; reads and writes never do. Several goroutines
// may call them at once. The context is that of the call, such as OpenContext. When it ends, the
// call returns, even if the provider doesn't, and a later answer is dropped. The context of Open
// never ends: a provider that asks a service sets a time limit of its own.
type KeyProvider interface {
	// WrapKey encrypts a data key of 32 bytes under the master key that is current now, to at
	// most 16 KiB. binding identifies the store and the data key. It is no secret; UnwrapKey gets
	// the same binding. WrapKey must not keep the slices.
	WrapKey(ctx context.Context, key, binding []byte) (wrapped []byte, err error)
	// UnwrapKey decrypts what WrapKey has returned for this binding, also if the master key is
	// no longer current. It returns an error if it doesn't have the master key, if the bytes or
	// the binding were changed, or if a service doesn't answer. Open then returns ErrKey, which
	// wraps that error.
	UnwrapKey(ctx context.Context, wrapped, binding []byte) (key []byte, err error)
}

// StaticKey returns a provider of one master key: 32 random bytes, which it copies, and no
// passphrase. Open returns ErrInvalid for another length. The key does not show when the provider
// is printed.
func StaticKey(key []byte) KeyProvider { return keyring.StaticKey(key) }

// KeyFile returns a provider of the master keys in a text file: each line has a name and 32 bytes
// in base64. The last line is the current key; the others unwrap the data keys that they have
// wrapped. A line that begins with # is a comment. brock keygen adds a line. The file is read
// whenever a key is wrapped or unwrapped, so a new line counts at once. Except on Windows, the
// provider returns an error if anyone but the owner may read or write the file. Keep it on
// another disk than the store.
func KeyFile(path string) KeyProvider { return keyring.KeyFile(path) }
