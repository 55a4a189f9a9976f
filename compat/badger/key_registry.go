package badger

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/brockdb/brock/compat/badger/pb"
	"github.com/brockdb/brock/compat/badger/y"
)

const (
	// KeyRegistryFileName is the name of a KeyRegistry's file.
	KeyRegistryFileName = "KEYREGISTRY"
	// KeyRegistryRewriteFileName is the name of the file while WriteKeyRegistry writes it.
	KeyRegistryRewriteFileName = "REWRITE-KEYREGISTRY"
)

// registryCheck stands encrypted in the file: only the right key makes it readable.
const registryCheck = "Hello Badger"

// registryHeader is the length of what lies before the keys: an iv and registryCheck.
const registryHeader = 16 + len(registryCheck)

// dataKeyMax bounds the record of a key: 32 bytes of key, 16 of iv, two numbers and tags make 78.
const dataKeyMax = 96

// KeyRegistry is a file of data keys, each encrypted by a master key, for programs that encrypt
// files of their own. A store of this module doesn't use it. The file is that of Badger, byte for
// byte. All methods may be called by several goroutines; one process may write at a time.
type KeyRegistry struct {
	opt KeyRegistryOptions

	mu     sync.Mutex
	keys   map[uint64]*pb.DataKey // decrypted
	latest uint64                 // the highest id, 0 if there is no key
	newest int64                  // when the newest key was made, in Unix seconds
	file   *os.File               // to append to; nil if ReadOnly or InMemory
}

// KeyRegistryOptions say where the registry is and how it is encrypted.
type KeyRegistryOptions struct {
	// Dir is the directory of the file. It must be there.
	Dir string
	// ReadOnly opens without writing. A missing file is an empty registry.
	ReadOnly bool
	// EncryptionKey is the master key, of 16, 24 or 32 bytes. None means that nothing is encrypted.
	EncryptionKey []byte
	// EncryptionKeyRotationDuration is the age at which LatestDataKey makes a new key.
	EncryptionKeyRotationDuration time.Duration
	// InMemory keeps the keys in memory only.
	InMemory bool
}

// OpenKeyRegistry opens the registry of a directory, and creates it if it is not there. It returns
// ErrInvalidEncryptionKey for a master key of another length, and ErrEncryptionKeyMismatch for
// another master key than that of the file. A key that a crash has left half written is dropped:
// LatestDataKey had not returned it.
func OpenKeyRegistry(opt KeyRegistryOptions) (*KeyRegistry, error) {
	switch len(opt.EncryptionKey) {
	case 0, 16, 24, 32:
	default:
		return nil, y.Wrapf(ErrInvalidEncryptionKey, "During OpenKeyRegistry")
	}
	registry := &KeyRegistry{opt: opt, keys: make(map[uint64]*pb.DataKey)}
	if opt.InMemory {
		return registry, nil
	}
	path := filepath.Join(opt.Dir, KeyRegistryFileName)
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if opt.ReadOnly {
			return registry, nil
		}
		if err = WriteKeyRegistry(registry, opt); err == nil {
			content, err = os.ReadFile(path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open key registry: %w", err)
	}
	whole, err := registry.decode(content)
	if err != nil || opt.ReadOnly {
		return registry.orNil(err), err
	}
	return registry.orNil(err), registry.openForAppend(path, int64(whole))
}

func (r *KeyRegistry) orNil(err error) *KeyRegistry {
	if err != nil {
		return nil
	}
	return r
}

// openForAppend opens the file behind its last whole key.
func (r *KeyRegistry) openForAppend(path string, end int64) error {
	file, err := y.OpenExistingFile(path, y.Sync)
	if err != nil {
		return fmt.Errorf("open key registry: %w", err)
	}
	if err = file.Truncate(end); err == nil {
		_, err = file.Seek(end, 0)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("open key registry: %w", err), file.Close())
	}
	r.file = file
	return nil
}

// decode reads the keys of a file and returns the length of what is whole.
func (r *KeyRegistry) decode(content []byte) (int, error) {
	if len(content) < registryHeader {
		return 0, fmt.Errorf("key registry of %d bytes: too short", len(content))
	}
	iv, check := content[:16], content[16:registryHeader]
	check, err := r.crypt(check, iv)
	if err != nil {
		return 0, err
	}
	if string(check) != registryCheck {
		return 0, ErrEncryptionKeyMismatch
	}
	at := registryHeader
	for at < len(content) {
		record, torn, err := splitRecord(content[at:])
		if err != nil {
			return 0, y.Wrapf(err, "key registry at %d", at)
		}
		if torn {
			break
		}
		if err := r.addRecord(record); err != nil {
			return 0, fmt.Errorf("key registry at %d: %w", at, err)
		}
		at += 8 + len(record)
	}
	return at, nil
}

// splitRecord returns the first record of the rest of a file. torn says that a crash has cut the
// last append short: the rest is shorter than a record, or zeros, as some file systems leave it.
// What else doesn't fit is damage, and never dropped silently.
func splitRecord(rest []byte) (record []byte, torn bool, err error) {
	if len(rest) < 8 || len(bytes.Trim(rest, "\x00")) == 0 {
		return nil, true, nil
	}
	size := int(min(binary.BigEndian.Uint32(rest), dataKeyMax+1))
	if size == 0 || size > dataKeyMax {
		return nil, false, y.ErrChecksumMismatch
	}
	if size > len(rest)-8 {
		return nil, true, nil
	}
	record = rest[8 : 8+size]
	if crc32.Checksum(record, y.CastagnoliCrcTable) != binary.BigEndian.Uint32(rest[4:]) {
		return nil, false, y.ErrChecksumMismatch
	}
	return record, false, nil
}

func (r *KeyRegistry) addRecord(record []byte) error {
	key := &pb.DataKey{}
	if err := proto.Unmarshal(record, key); err != nil {
		return err
	}
	data, err := r.crypt(key.Data, key.Iv)
	if err != nil {
		return err
	}
	key.Data = data
	r.keys[key.KeyId] = key
	r.latest = max(r.latest, key.KeyId)
	r.newest = max(r.newest, key.CreatedAt)
	return nil
}

// crypt encrypts or decrypts by the master key; without one it returns what it got.
func (r *KeyRegistry) crypt(data, iv []byte) ([]byte, error) {
	if len(r.opt.EncryptionKey) == 0 {
		return data, nil
	}
	return y.XORBlockAllocate(data, r.opt.EncryptionKey, iv)
}

// WriteKeyRegistry writes the keys of a registry, open or closed, to the file of opt, encrypted by
// the master key of opt. The file is replaced at once, and durable on return. A registry that is
// open on that file still appends to the old one: close it.
func WriteKeyRegistry(r *KeyRegistry, opt KeyRegistryOptions) error {
	target := &KeyRegistry{opt: opt}
	iv, err := y.GenerateIV()
	if err != nil {
		return err
	}
	check, err := target.crypt([]byte(registryCheck), iv)
	if err != nil {
		return y.Wrapf(err, "Error while encrypting sanity text in WriteKeyRegistry")
	}
	content := append(bytes.Clone(iv), check...)
	r.mu.Lock()
	for _, id := range sortedIDs(r.keys) {
		if content, err = target.appendRecord(content, r.keys[id]); err != nil {
			break
		}
	}
	r.mu.Unlock()
	if err != nil {
		return err
	}
	fresh := filepath.Join(opt.Dir, KeyRegistryRewriteFileName)
	if err := writeSynced(fresh, content); err != nil {
		return fmt.Errorf("write key registry: %w", err)
	}
	if err := os.Rename(fresh, filepath.Join(opt.Dir, KeyRegistryFileName)); err != nil {
		return fmt.Errorf("write key registry: %w", err)
	}
	return syncDirectory(opt.Dir)
}

func sortedIDs(keys map[uint64]*pb.DataKey) []uint64 {
	ids := make([]uint64, 0, len(keys))
	for id := range keys {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// appendRecord appends the record of a decrypted key.
func (r *KeyRegistry) appendRecord(content []byte, key *pb.DataKey) ([]byte, error) {
	data, err := r.crypt(key.Data, key.Iv)
	if err != nil {
		return nil, fmt.Errorf("encrypt data key: %w", err)
	}
	record, err := proto.Marshal(&pb.DataKey{
		KeyId: key.KeyId, Data: data, Iv: key.Iv, CreatedAt: key.CreatedAt,
	})
	if err != nil {
		return nil, fmt.Errorf("encode data key: %w", err)
	}
	content = binary.BigEndian.AppendUint32(content, uint32(len(record)))
	content = binary.BigEndian.AppendUint32(content, crc32.Checksum(record, y.CastagnoliCrcTable))
	return append(content, record...), nil
}

func writeSynced(path string, content []byte) error {
	file, err := y.OpenTruncFile(path, true)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}

// syncDirectory makes a rename durable. Where directories can't be synced, as on Windows, it does
// nothing.
func syncDirectory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	err = dir.Sync()
	if errors.Is(err, fs.ErrInvalid) || errors.Is(err, fs.ErrPermission) {
		err = nil
	}
	return errors.Join(err, dir.Close())
}

// DataKey returns the key with this id, decrypted, and nil for id 0. It returns an error with
// ErrInvalidDataKeyID in it if there is no such key. Don't change what it returns.
func (r *KeyRegistry) DataKey(id uint64) (*pb.DataKey, error) {
	if id == 0 {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key, found := r.keys[id]
	if !found {
		return nil, y.Wrapf(ErrInvalidDataKeyID, "Error for the KEY ID %d", id)
	}
	return key, nil
}

// LatestDataKey returns the newest key, or a new one if that is older than
// EncryptionKeyRotationDuration. A new key is durable on return. Without a master key it returns
// nil. Don't change what it returns.
func (r *KeyRegistry) LatestDataKey() (*pb.DataKey, error) {
	if len(r.opt.EncryptionKey) == 0 {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if key := r.keys[r.latest]; key != nil {
		if time.Since(time.Unix(r.newest, 0)) < r.opt.EncryptionKeyRotationDuration {
			return key, nil
		}
	}
	return r.addKeyLocked()
}

func (r *KeyRegistry) addKeyLocked() (*pb.DataKey, error) {
	if r.file == nil && !r.opt.InMemory {
		return nil, fmt.Errorf("make data key: key registry is closed or read-only: %w", fs.ErrClosed)
	}
	iv, err := y.GenerateIV()
	if err != nil {
		return nil, err
	}
	key := &pb.DataKey{
		KeyId:     r.latest + 1,
		Data:      make([]byte, len(r.opt.EncryptionKey)),
		Iv:        iv,
		CreatedAt: time.Now().Unix(),
	}
	if _, err := rand.Read(key.Data); err != nil {
		return nil, err
	}
	if r.file != nil {
		record, err := r.appendRecord(nil, key)
		if err != nil {
			return nil, err
		}
		if _, err := r.file.Write(record); err != nil {
			// What was written may end in the middle of a record, and a later one behind it would be
			// lost. No further key is made; the next OpenKeyRegistry drops the half one.
			file := r.file
			r.file = nil
			return nil, errors.Join(fmt.Errorf("write data key: %w", err), file.Close())
		}
	}
	r.keys[key.KeyId] = key
	r.latest, r.newest = key.KeyId, key.CreatedAt
	return key, nil
}

// Close closes the file. The keys can still be read.
func (r *KeyRegistry) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}
