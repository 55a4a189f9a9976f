package badger

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	genuine "github.com/dgraph-io/badger/v4"
)

func registryOptions(dir string, key []byte) KeyRegistryOptions {
	return KeyRegistryOptions{Dir: dir, EncryptionKey: key}
}

func openRegistry(t *testing.T, opt KeyRegistryOptions) *KeyRegistry {
	r, err := OpenKeyRegistry(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// newKeys makes keys; the rotation time of 0 makes each one new.
func newKeys(t *testing.T, r *KeyRegistry, n int) (keys [][]byte) {
	for range n {
		key, err := r.LatestDataKey()
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key.Data)
	}
	return keys
}

func checkKeys(t *testing.T, r *KeyRegistry, keys [][]byte) {
	t.Helper()
	for i, want := range keys {
		key, err := r.DataKey(uint64(i + 1))
		if err != nil || !bytes.Equal(key.Data, want) {
			t.Fatalf("key %d: %v, %v", i+1, key, err)
		}
	}
	if key, err := r.DataKey(uint64(len(keys) + 1)); !errors.Is(err, ErrInvalidDataKeyID) {
		t.Fatalf("a key more: %v, %v", key, err)
	}
}

// TestKeyRegistryIsThatOfBadger: each reads what the other has written, also after it was rewritten
// under another master key.
func TestKeyRegistryIsThatOfBadger(t *testing.T) {
	for _, size := range []int{16, 24, 32} {
		dir, master := t.TempDir(), bytes.Repeat([]byte{byte(size)}, size)
		r := openRegistry(t, registryOptions(dir, master))
		keys := newKeys(t, r, 3)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		theirs, err := genuine.OpenKeyRegistry(genuine.KeyRegistryOptions{Dir: dir, EncryptionKey: master})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range keys {
			if key, err := theirs.DataKey(uint64(i + 1)); err != nil || !bytes.Equal(key.Data, want) {
				t.Fatalf("Badger reads key %d as %v, %v", i+1, key, err)
			}
		}
		fourth, err := theirs.LatestDataKey()
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, fourth.Data)
		other := bytes.Repeat([]byte{9}, 32)
		if err := genuine.WriteKeyRegistry(theirs, genuine.KeyRegistryOptions{Dir: dir, EncryptionKey: other}); err != nil {
			t.Fatal(err)
		}
		if err := theirs.Close(); err != nil {
			t.Fatal(err)
		}
		again := openRegistry(t, registryOptions(dir, other))
		checkKeys(t, again, keys)
		if _, err := OpenKeyRegistry(registryOptions(dir, master)); !errors.Is(err, ErrEncryptionKeyMismatch) {
			t.Fatal(err)
		}
	}
}

func TestKeyRegistryRotates(t *testing.T) {
	opt := registryOptions(t.TempDir(), make([]byte, 16))
	opt.EncryptionKeyRotationDuration = time.Hour
	r := openRegistry(t, opt)
	first, err := r.LatestDataKey()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := r.LatestDataKey(); err != nil || again != first || first.KeyId != 1 {
		t.Fatal(again, err)
	}
	r.newest -= int64(time.Hour / time.Second)
	second, err := r.LatestDataKey()
	if err != nil || second.KeyId != 2 || bytes.Equal(second.Data, first.Data) {
		t.Fatal(second, err)
	}
	if err := WriteKeyRegistry(r, opt); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.addKeyLocked(); err == nil {
		t.Fatal("a closed registry made a key")
	}
	opt.ReadOnly = true
	checkKeys(t, openRegistry(t, opt), [][]byte{first.Data, second.Data})
}

// TestKeyRegistryAfterCrash cuts the file at each length: whole keys stay, a half one is dropped, and
// the next key follows.
func TestKeyRegistryAfterCrash(t *testing.T) {
	opt := registryOptions(t.TempDir(), make([]byte, 32))
	r := openRegistry(t, opt)
	path := filepath.Join(opt.Dir, KeyRegistryFileName)
	ends := []int{registryHeader}
	var keys [][]byte
	for range 3 {
		keys = append(keys, newKeys(t, r, 1)...)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, int(info.Size()))
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := range len(whole) + 1 {
		for _, zeros := range []int{0, 50, 100} {
			dir := t.TempDir()
			content := append(bytes.Clone(whole[:size]), make([]byte, zeros)...)
			if err := os.WriteFile(filepath.Join(dir, KeyRegistryFileName), content, 0o600); err != nil {
				t.Fatal(err)
			}
			cut, err := OpenKeyRegistry(registryOptions(dir, opt.EncryptionKey))
			if size < registryHeader {
				if err == nil {
					t.Fatalf("%d bytes of the header pass", size)
				}
				continue
			}
			left := 0
			for left < 3 && ends[left+1] <= size {
				left++
			}
			if zeros > 0 && size != ends[left] && err != nil {
				continue // zeros in a record are damage, unless it is cut short, too
			}
			if err != nil {
				t.Fatalf("%d bytes: %v", size, err)
			}
			checkKeys(t, cut, keys[:left])
			fresh := newKeys(t, cut, 1)
			if err := cut.Close(); err != nil {
				t.Fatal(err)
			}
			checkKeys(t, openRegistry(t, registryOptions(dir, opt.EncryptionKey)), append(keys[:left:left], fresh...))
		}
	}
}

// TestKeyRegistryDamaged flips each byte: no key changes unnoticed.
func TestKeyRegistryDamaged(t *testing.T) {
	opt := registryOptions(t.TempDir(), make([]byte, 16))
	r := openRegistry(t, opt)
	keys := newKeys(t, r, 2)
	whole, err := os.ReadFile(filepath.Join(opt.Dir, KeyRegistryFileName))
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		dir := t.TempDir()
		content := bytes.Clone(whole)
		content[i] ^= 0x10
		if err := os.WriteFile(filepath.Join(dir, KeyRegistryFileName), content, 0o600); err != nil {
			t.Fatal(err)
		}
		damaged, err := OpenKeyRegistry(registryOptions(dir, opt.EncryptionKey))
		if err != nil {
			continue
		}
		for id, want := range keys {
			if key, err := damaged.DataKey(uint64(id + 1)); err == nil && !bytes.Equal(key.Data, want) {
				t.Fatalf("byte %d: key %d has changed", i, id+1)
			}
		}
		damaged.Close()
	}
}

func TestKeyRegistryMisuse(t *testing.T) {
	if _, err := OpenKeyRegistry(registryOptions(t.TempDir(), make([]byte, 5))); !errors.Is(err, ErrInvalidEncryptionKey) {
		t.Fatal(err)
	}
	if _, err := OpenKeyRegistry(registryOptions(filepath.Join(t.TempDir(), "missing"), nil)); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	plain := openRegistry(t, registryOptions(t.TempDir(), nil))
	if key, err := plain.LatestDataKey(); key != nil || err != nil {
		t.Fatal(key, err)
	}
	if key, err := plain.DataKey(0); key != nil || err != nil {
		t.Fatal(key, err)
	}
	memory := registryOptions("", make([]byte, 16))
	memory.InMemory = true
	checkKeys(t, openRegistry(t, memory), nil)
	newKeys(t, openRegistry(t, memory), 2)
	missing := registryOptions(t.TempDir(), make([]byte, 16))
	missing.ReadOnly = true
	r := openRegistry(t, missing)
	if _, err := r.LatestDataKey(); err == nil {
		t.Fatal("a read-only registry made a key")
	}
}
