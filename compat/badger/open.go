package badger

import (
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/compat/badger/options"
)

// The keyspaces of a store beside the default one, which has the pairs of a store that is not managed.
const (
	managedKeyspace = "badger.versions" // the versions of a managed store
	stateKeyspace   = "badger.state"    // what this package notes; made when there is something to note
)

// subdirectory is where the store lies if the directory holds files of other programs: Badger doesn't
// mind them, and Brock wants a directory of its own.
const subdirectory = "brock"

// Open opens the store in opt.Dir, and makes it if there is none. A directory that holds files of other
// programs gets a subdirectory for the store. Close the store at the end.
//
// It returns an error for options that Badger refuses, ErrEncryptionKeyMismatch,
// ErrInvalidEncryptionKey, an error for which errors.Is reports brock.ErrLocked if the store is open,
// brock.ErrForeign if the directory holds files of Badger itself, and the errors of brock.Open.
func Open(opt Options) (*DB, error) {
	if err := opt.prepare(); err != nil {
		return nil, err
	}
	o, err := opt.toBrock()
	if err != nil {
		return nil, err
	}
	store, err := openStore(o)
	if err != nil {
		return nil, opt.openError(err)
	}
	db := newDB(store, opt)
	if err := db.begin(); err != nil {
		return nil, errors.Join(opt.openError(err), store.Close())
	}
	return db, nil
}

// OpenManaged opens a store whose versions the caller gives: by NewTransactionAt, CommitAt and
// NewWriteBatchAt. A store is managed from its making on, or it is not: the other way of opening
// returns an error.
func OpenManaged(opts Options) (*DB, error) {
	opts.managedTxns = true
	return Open(opts)
}

// maxSegment is Brock's default, in bytes.
const maxSegment = 256 << 20

// toBrock returns the options of Brock.
func (opt *Options) toBrock() (brock.Options, error) {
	o := brock.Options{
		InMemory:    opt.InMemory,
		Durability:  brock.Buffered,
		Logger:      newSlog(opt.Logger),
		VerifyReads: opt.VerifyValueChecksum || opt.ChecksumVerificationMode >= options.OnBlockRead,
		Tuning:      brock.Tuning{SegmentSize: min(opt.ValueLogFileSize, maxSegment)},
		MemoryLimit: min(max(4*opt.MemTableSize, 16<<20), brock.DefaultMemoryLimit),
		KeyspaceDefaults: brock.KeyspaceOptions{
			Versions:    brock.Retention{Versions: max(opt.NumVersionsToKeep, 1)},
			Compression: compressionOf(opt.Compression),
		},
	}
	if opt.managedTxns { // each version is a key of its own
		o.KeyspaceDefaults.Versions = brock.Retention{}
	}
	if opt.SyncWrites {
		o.Durability = brock.Synced
	}
	switch {
	case opt.ReadOnly && opt.BypassLockGuard:
		o.Mode = brock.Follow
	case opt.ReadOnly:
		o.Mode = brock.ReadOnly
	}
	if !opt.InMemory {
		o.Dir, o.ValueDir = filepath.Clean(opt.Dir), valueDir(opt.Dir, opt.ValueDir)
		if opt.Dir == "" {
			return o, errors.New("badger: Dir is empty")
		}
		if _, err := os.Stat(o.Dir); opt.ReadOnly && errors.Is(err, os.ErrNotExist) {
			return o, fmt.Errorf("Cannot find directory %q for read-only open", opt.Dir)
		}
	}
	var err error
	o.Keys, err = keysOf(opt.EncryptionKey)
	return o, err
}

// valueDir returns Brock's ValueDir: empty if both names mean one directory.
func valueDir(dir, valueDir string) string {
	if valueDir == "" || sameDir(dir, valueDir) {
		return ""
	}
	return filepath.Clean(valueDir)
}

// sameDir reports whether both names mean one directory, however they are written.
func sameDir(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	ia, errA := os.Stat(a)
	ib, errB := os.Stat(b)
	if errA == nil && errB == nil {
		return os.SameFile(ia, ib)
	}
	a, errA = filepath.Abs(a)
	b, errB = filepath.Abs(b)
	return errA == nil && errB == nil && a == b
}

func compressionOf(c options.CompressionType) brock.Compression {
	switch c {
	case options.Snappy:
		return brock.S2
	case options.ZSTD:
		return brock.Zstd
	}
	return brock.NoCompression
}

// keysOf returns the provider of an encryption key; nil for none. Brock wants 32 bytes, so a shorter
// key is stretched to as many: the store is as hard to break as the key.
func keysOf(key []byte) (brock.KeyProvider, error) {
	switch len(key) {
	case 0:
		return nil, nil
	case 32:
		return brock.StaticKey(key), nil
	case 16, 24:
		long, err := hkdf.Key(sha256.New, key, nil, "badger EncryptionKey", 32)
		if err != nil {
			return nil, err
		}
		return brock.StaticKey(long), nil
	}
	return nil, ErrInvalidEncryptionKey
}

// openStore opens the store in its directory, or in the subdirectory.
func openStore(o brock.Options) (*brock.DB, error) {
	store, err := brock.Open(o)
	if !errors.Is(err, brock.ErrForeign) {
		return store, err
	}
	other, theirs := foreignFiles(o.Dir)
	switch {
	case theirs:
		return nil, fmt.Errorf("badger: %s holds files of Badger, which Brock does not read; "+
			"write a backup with Badger and load it into an empty directory: %w", o.Dir, err)
	case !other:
		return nil, err // it is about another directory or store
	}
	o.Dir = filepath.Join(o.Dir, subdirectory)
	return brock.Open(o)
}

// foreignFiles reports whether a directory, in which no store of Brock is, holds files of other
// programs, and whether these are of Badger itself.
func foreignFiles(dir string) (other, badgers bool) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, false
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case name == "SUPER":
			return false, false
		case name == "MANIFEST", name == "KEYREGISTRY", name == "DISCARD",
			strings.HasSuffix(name, ".vlog"), strings.HasSuffix(name, ".sst"), strings.HasSuffix(name, ".mem"):
			badgers = true
		}
		other = true
	}
	return other, badgers
}

// openError returns the error that Open returns for one of Brock.
func (opt *Options) openError(err error) error {
	switch {
	case errors.Is(err, brock.ErrKey):
		return ErrEncryptionKeyMismatch
	case errors.Is(err, brock.ErrLocked):
		return fmt.Errorf("Cannot acquire directory lock on %q. Another process is using this Badger database. error: %w", opt.Dir, err)
	}
	return err
}
