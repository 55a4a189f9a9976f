package keyring

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/vfs"
)

// A provider of the master keys in a text file.

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

// WrapKey wraps the key under the last master key of the file. The name of that key is in front of
// what it returns.
func (k *keyFile) WrapKey(ctx context.Context, key, binding []byte) ([]byte, error) {
	keys, err := readKeyFile(k.path)
	if err != nil {
		return nil, err
	}
	last := keys[len(keys)-1]
	wrapped, err := newStaticKey(last.key).WrapKey(ctx, key, binding)
	if err != nil {
		return nil, err
	}
	head := append([]byte{byte(len(last.name))}, last.name...)
	return append(head, wrapped...), nil
}

// UnwrapKey finds the master key by the name in front of wrapped.
func (k *keyFile) UnwrapKey(ctx context.Context, wrapped, binding []byte) ([]byte, error) {
	// The bytes come from a file that anybody may have changed.
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
	return newStaticKey(keys[i].key).UnwrapKey(ctx, wrapped, binding)
}

// String names the file; its keys are not in memory.
func (k *keyFile) String() string { return "brock.KeyFile(" + k.path + ")" }

// masterKey is a line of a key file.
type masterKey struct {
	name string
	key  []byte // masterSize bytes
}

// readKeyFile returns the keys of a file, at least one. Errors tell lines by their numbers, never
// what they hold.
func readKeyFile(path string) (keys []masterKey, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	text, err := readKeys(f)
	if err != nil {
		return nil, err
	}
	return parseKeyFile(path, text)
}

// readKeys returns the text of a key file, unless others may use it.
func readKeys(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("key file %s: others may use it (permissions %#o): chmod 600", f.Name(), perm)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err == nil && len(text) > maxKeyFile {
		err = fmt.Errorf("key file %s: it has more than %d bytes", f.Name(), maxKeyFile)
	}
	return text, err
}

// parseKeyFile reads the lines of a key file; path is for errors.
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

// parseKey reads a line of two words: name and key.
func parseKey(words []string) (m masterKey, ok bool) {
	if len(words) != 2 || len(words[0]) > maxKeyName {
		return masterKey{}, false
	}
	key, err := base64.StdEncoding.DecodeString(words[1])
	return masterKey{name: words[0], key: key}, err == nil && len(key) == masterSize
}

// AppendMasterKey draws a master key, and adds it to the key file at path, under a name that no
// other line has. It makes the file if there is none. The file and its name are durable on return.
func AppendMasterKey(path, name string) (err error) {
	if words := strings.Fields(name); len(words) != 1 || words[0] != name || len(name) > maxKeyName || name[0] == '#' {
		return fmt.Errorf("%w: %q is no name of a key: up to %d bytes, no spaces, not # first", errs.ErrInvalid, name, maxKeyName)
	}
	// Appended, never rewritten: a crash can't lose keys that are there.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	text, err := readKeys(f)
	if err != nil {
		return err
	}
	key := make([]byte, masterSize)
	_, _ = rand.Read(key) // ends the process rather than return an error
	line := name + " " + base64.StdEncoding.EncodeToString(key) + "\n"
	if len(text) > 0 && text[len(text)-1] != '\n' {
		line = "\n" + line
	}
	// What is there must be right, and with the new line, too: else no store could be opened.
	if _, err := parseKeyFile(path, append(text, line...)); err != nil {
		return err
	}
	_, err = f.WriteString(line)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		// Half a line would make the file invalid, and no store could be opened.
		return errors.Join(err, f.Truncate(int64(len(text))))
	}
	return vfs.OS().SyncDir(filepath.Dir(path))
}
