package programs

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(string, ...any) {}

// openPebble opens a store with a memtable of 64 MB and Bloom filters.
func openPebble(dir string) (*pebble.DB, *pebble.Options, error) {
	o := &pebble.Options{FormatMajorVersion: pebble.FormatNewest, MemTableSize: 64 << 20, CacheSize: 256 << 20, Logger: silent{}}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
	}
	db, err := pebble.Open(dir, o)
	return db, o, err
}

func pebbleIngest(dir string, n int) (perSecond float64, err error) {
	db, o, err := openPebble(filepath.Join(dir, "store"))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return measure(n, func() error { return ingestPebble(db, o, filepath.Join(dir, "load.sst"), n) })
}

// ingestPebble loads n pairs in order by one table.
func ingestPebble(db *pebble.DB, o *pebble.Options, name string, n int) error {
	f, err := vfs.Default.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(f), o.MakeWriterOptions(6, db.FormatMajorVersion().MaxTableFormat()))
	for i := range n {
		if err := w.Set(appendKey(nil, i), valueOf(i)); err != nil {
			return errors.Join(err, w.Close())
		}
	}
	if err := w.Close(); err != nil { // it syncs the file
		return err
	}
	return db.Ingest(context.Background(), []string{name})
}

func pebbleFirst(dir string, n int) (perSecond float64, err error) {
	db, o, err := openPebble(filepath.Join(dir, "store"))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := ingestPebble(db, o, filepath.Join(dir, "load.sst"), n); err != nil {
		return 0, err
	}
	return measure(n, func() error {
		for range n {
			it, err := db.NewIter(nil)
			if err != nil {
				return err
			}
			if !it.First() {
				return errors.Join(pebble.ErrNotFound, it.Close())
			}
			err = db.Delete(it.Key(), pebble.NoSync)
			if err := errors.Join(err, it.Close()); err != nil {
				return err
			}
		}
		return nil
	})
}
