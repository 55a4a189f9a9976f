package otelstorage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"

	"github.com/brockdb/brock"
)

// A storage that file_storage has kept is taken over when its first client is asked for: only then is
// its name known, as names of files are not unambiguous. Its file is opened read-only. Pairs are
// committed in the order of their keys, so that a migration that was interrupted goes on behind the
// last one.

// migratedName is the keyspace with a mark for each storage that was taken over, or is about to be: the
// name of its keyspace, and a state. No client has a keyspace of this name, which has no slash.
const migratedName = "migrated"

// States of a migration. The size and the time of the file follow after begun, so that another file is
// not taken for the rest of the first one.
const (
	migrationBegun = "begun"
	migrationDone  = "done"
)

// migratedBytes is how many bytes of pairs are committed together, about.
const migratedBytes = 1 << 20

// sourceBucket is the bucket in which file_storage keeps all pairs.
var sourceBucket = []byte("default")

// sourceFile returns the file in which file_storage keeps the storage of a component; "" if there is none.
func sourceFile(dir string, kind component.Kind, id component.ID, storageName string) (string, error) {
	parts := []string{strings.ToLower(kind.String()), id.Type().String(), id.Name()}
	if storageName != "" {
		parts = append(parts, storageName)
	}
	var name strings.Builder
	for _, r := range strings.Join(parts, "_") {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".-_", r) {
			name.WriteRune(r)
		} else {
			fmt.Fprintf(&name, "~%04X", r)
		}
	}
	file := filepath.Join(dir, name.String())
	const longestName = 255 // of a file; a longer one is replaced by its hash
	if name.Len() > longestName {
		sum := sha256.Sum256([]byte(name.String()))
		file = filepath.Join(dir, hex.EncodeToString(sum[:]))
	}
	_, err := os.Stat(file)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return file, err
}

// takeOver migrates the storage of a component if Config.MigrateFrom says so and there is one.
func (s *brockStorage) takeOver(ctx context.Context, kind component.Kind, id component.ID, storageName string, to *openKeyspace) error {
	if s.cfg.MigrateFrom == "" {
		return nil
	}
	file, err := sourceFile(s.cfg.MigrateFrom, kind, id, storageName)
	if err != nil || file == "" {
		return err
	}
	if err := s.migrate(ctx, file, to); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// migrate takes over a file of file_storage into a keyspace that nobody else uses, unless that was done
// already, or the keyspace has data of its own.
func (s *brockStorage) migrate(ctx context.Context, file string, to *openKeyspace) error {
	marks, err := to.store.db.Keyspace(migratedName)
	if err != nil {
		return translate(err)
	}
	mark := []byte(to.Name())
	stored, err := presentValue(marks.Get(mark))
	if err != nil || string(stored) == migrationDone {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	begun := fmt.Appendf(nil, "%s %d %d", migrationBegun, info.Size(), info.ModTime().UnixNano())
	last, err := to.lastKey()
	if err != nil {
		return err
	}
	log := s.set.Logger.With(zap.String("file", file), zap.String("storage", to.Name()))
	switch {
	case stored == nil && last != nil:
		log.Warn("The storage has data already, so the file of file_storage is not taken over.")
		return nil
	case !bytes.Equal(stored, begun):
		// What another file has left is none of this one.
		if err := to.Clear(ctx); err != nil {
			return translate(err)
		}
		if last, err = nil, marks.Set(mark, begun); err != nil {
			return translate(err)
		}
	}
	pairs, err := to.copyFile(ctx, file, s.cfg.Timeout, last)
	if err != nil {
		return err
	}
	// Synced, and so are all commits before.
	batch := marks.NewBatch()
	if err := batch.Set(mark, []byte(migrationDone)); err != nil {
		return err
	}
	if _, err := batch.Commit(ctx, brock.Synced); err != nil {
		return translate(err)
	}
	log.Info("The file of file_storage was taken over.", zap.Int("pairs", pairs))
	return nil
}

// lastKey returns a copy of the greatest key; nil if there is none.
func (k *openKeyspace) lastKey() (key []byte, err error) {
	err = k.View(func(txn *brock.Txn) error {
		item, err := txn.Last(nil, nil)
		if err == nil {
			key = bytes.Clone(item.Key())
		}
		return err
	})
	if errors.Is(err, brock.ErrKeyNotFound) {
		err = nil
	}
	return key, err
}

// copyFile copies the pairs behind a key, or all if it is nil, and returns their number. It waits as
// long as wait while another process has the file open.
func (k *openKeyspace) copyFile(ctx context.Context, file string, wait time.Duration, behind []byte) (pairs int, err error) {
	source, err := openSource(file, wait, behind)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, guard(source.db.Close)) }()
	defer func() { err = errors.Join(err, guard(source.tx.Rollback)) }()
	for {
		ops, err := source.readPairs()
		if err != nil || len(ops) == 0 {
			return pairs, err
		}
		if err := k.copyPairs(ctx, ops); err != nil {
			return pairs, err
		}
		pairs += len(ops)
	}
}

// sourcePairs are the pairs of a file that were not read yet.
type sourcePairs struct {
	db         *bbolt.DB
	tx         *bbolt.Tx
	cursor     *bbolt.Cursor // nil if there are no pairs
	key, value []byte        // the next pair; key is nil at the end
}

func openSource(file string, wait time.Duration, behind []byte) (s *sourcePairs, err error) {
	s = new(sourcePairs)
	err = guard(func() error {
		// With 0 bbolt waits for ever.
		s.db, err = bbolt.Open(file, 0o400, &bbolt.Options{ReadOnly: true, Timeout: max(wait, time.Millisecond)})
		return err
	})
	if err != nil {
		return nil, err
	}
	err = guard(func() error {
		if s.tx, err = s.db.Begin(false); err != nil {
			return err
		}
		bucket := s.tx.Bucket(sourceBucket)
		if bucket == nil {
			return nil // the file was made and never used
		}
		s.cursor = bucket.Cursor()
		if s.key, s.value = s.cursor.Seek(behind); behind != nil && bytes.Equal(s.key, behind) {
			s.key, s.value = s.cursor.Next()
		}
		return nil
	})
	if err != nil {
		if s.tx != nil {
			err = errors.Join(err, guard(s.tx.Rollback))
		}
		return nil, errors.Join(err, guard(s.db.Close))
	}
	return s, nil
}

// readPairs returns copies of the next pairs, as operations that set them; none at the end.
func (s *sourcePairs) readPairs() (ops []*storage.Operation, err error) {
	err = guard(func() error {
		for size := 0; s.key != nil && size < migratedBytes; s.key, s.value = s.cursor.Next() {
			ops = append(ops, storage.SetOperation(string(s.key), bytes.Clone(s.value)))
			size += len(s.key) + len(s.value)
		}
		return nil
	})
	return ops, err
}

// guard calls bbolt. Its files have no checksums: of a damaged one it panics, or reads where no memory is.
func guard(do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", brock.ErrCorrupt, r)
		}
	}()
	return do()
}

// copyPairs commits pairs, if there is room for them.
func (k *openKeyspace) copyPairs(ctx context.Context, ops []*storage.Operation) error {
	return k.store.room.commit(ctx, k.Keyspace, ops, func() error { return k.commitWrites(ctx, ops) })
}
