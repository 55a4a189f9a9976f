package keyring

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
)

// maxKeyFile bounds what is read of a key file, in bytes: some ten thousand keys.
const maxKeyFile = 1 << 20

// maxKeyName is the length of a key's name in what it wrapped.
const maxKeyName = 255

// keyFile reads the file at each call: a key that was added counts at once.
type keyFile struct {
	path string
}

// KeyFile returns a provider of the master keys in the file at path: lines of a name and 32
// bytes in base64, of which the last one is current; lines that begin with # are comments. A file
// to which others than its owner have a permission is refused, where there are such permissions.
func KeyFile(path string) Provider { return &keyFile{path: path} }

func (k *keyFile) WrapKey(ctx context.Context, key, binding []byte) ([]byte, error) {
	keys, err := readKeyFile(k.path)
	if err != nil {
		return nil, err
	}
	last := keys[len(keys)-1]
	wrapped, err := last.static().WrapKey(ctx, key, binding)
	if err != nil {
		return nil, err
	}
	head := append([]byte{byte(len(last.name))}, last.name...)
	return append(head, wrapped...), nil
}

func (k *keyFile) UnwrapKey(ctx context.Context, wrapped, binding []byte) ([]byte, error) {
	if len(wrapped) == 0 || len(wrapped) <= int(wrapped[0]) {
		return nil, errUnwrap
	}
	name, wrapped := string(wrapped[1:1+int(wrapped[0])]), wrapped[1+int(wrapped[0]):]
	keys, err := readKeyFile(k.path)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(keys, func(m masterKey) bool { return m.name == name })
	if i < 0 {
		return nil, fmt.Errorf("%s has no key %q", k.path, name)
	}
	return keys[i].static().UnwrapKey(ctx, wrapped, binding)
}

// String names the file; its keys are not in memory.
func (k *keyFile) String() string { return "brock.KeyFile(" + k.path + ")" }

// masterKey is a line of a key file.
type masterKey struct {
	name string
	key  []byte
}

func (m *masterKey) static() Provider { return newStaticKey(m.key) }

// readKeyFile returns the keys of a file, at least one. Errors tell lines by their numbers, never
// what they hold.
func readKeyFile(path string) (keys []masterKey, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("key file %s: others may use it (permissions %#o): chmod 600", path, perm)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxKeyFile {
		return nil, fmt.Errorf("key file %s: it has more than %d bytes", path, maxKeyFile)
	}
	return parseKeyFile(path, text)
}

func parseKeyFile(path string, text []byte) (keys []masterKey, err error) {
	for i, line := range bytes.Split(text, []byte("\n")) {
		words := strings.Fields(string(line))
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		m, ok := parseKey(words)
		if !ok {
			return nil, fmt.Errorf("key file %s, line %d: it has no name of up to %d bytes and %d bytes in base64", path, i+1, maxKeyName, masterSize)
		}
		if slices.ContainsFunc(keys, func(other masterKey) bool { return other.name == m.name }) {
			return nil, fmt.Errorf("key file %s, line %d: a line before has this name, too", path, i+1)
		}
		keys = append(keys, m)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("key file %s: it has no key; brock keygen adds one", path)
	}
	return keys, nil
}

func parseKey(words []string) (m masterKey, ok bool) {
	if len(words) != 2 || len(words[0]) > maxKeyName {
		return masterKey{}, false
	}
	key, err := base64.StdEncoding.DecodeString(words[1])
	return masterKey{name: words[0], key: key}, err == nil && len(key) == masterSize
}
