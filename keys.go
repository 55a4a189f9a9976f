package brock

import (
	"context"

	"github.com/brockdb/brock/internal/keyring"
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
	// most 16 KiB. binding says which store and data key it is: it is no secret, and must be given
	// to UnwrapKey again. It must not keep the slices.
	WrapKey(ctx context.Context, key, binding []byte) (wrapped []byte, err error)
	// UnwrapKey returns the data key of what WrapKey returned for this binding, also for a master
	// key that is no longer current. An error says that it can't: it has not the master key, the
	// bytes or the binding were changed, or a service doesn't answer. Open then returns ErrKey,
	// which wraps it.
	UnwrapKey(ctx context.Context, wrapped, binding []byte) (key []byte, err error)
}

// StaticKey returns a provider of one master key, 32 random bytes, which it copies; Open returns
// ErrInvalid for another length. A passphrase is no key. However the provider is printed, its key
// is not.
func StaticKey(key []byte) KeyProvider { return keyring.StaticKey(key) }

// KeyFile returns a provider of the master keys in a file of text: each line has a name and 32
// bytes in base64. The last line is the current key; the others are for data keys that they have
// wrapped. A line that begins with # is a comment. brock keygen adds a line. The file is read
// whenever a key is wrapped or unwrapped, so a new line counts at once. A file that others than
// its owner may read or write is refused, but on Windows. Keep it on another disk than the store.
func KeyFile(path string) KeyProvider { return keyring.KeyFile(path) }
