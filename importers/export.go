package importers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	bolt "go.etcd.io/bbolt"

	"github.com/brockdb/brock"
)

// ExportOptions say how a store is written to a bbolt file.
type ExportOptions struct {
	DefaultBucket string         // for the pairs of the default keyspace, which has no name; "" = "default"
	Progress      func(Progress) // called now and then, by one goroutine; nil is nobody
}

// Exported says what was written to a bbolt file.
type Exported struct {
	Pairs, Bytes int64
	Buckets      int
	Lost         []string // what of the store is not kept, a sentence each
}

// boltTxBytes is how many bytes of pairs go into one transaction of bbolt, which holds its pages in
// memory.
const boltTxBytes = 16 << 20

// boltFill is how full a page is: pairs come in the order of their keys.
const boltFill = 0.95

// ExportBbolt writes what one transaction of a store sees to a new bbolt file. A keyspace becomes the
// bucket of BucketPath; NamesKeyspace and SequencesKeyspace are put to use, and become none. The file
// has its name once it is whole and durable; until then .unfinished is added.
//
// It returns ErrRefused if two keyspaces would be one bucket, if a bucket would have the name of a key
// in the bucket around it, and for keys that bbolt doesn't take: empty ones, and those of more than
// 32,768 bytes.
func ExportBbolt(ctx context.Context, db *brock.DB, file string, o ExportOptions) (_ *Exported, err error) {
	if o.DefaultBucket == "" {
		o.DefaultBucket = "default"
	}
	if _, err := os.Lstat(file); err == nil {
		return nil, fmt.Errorf("%s %w", file, ErrNotEmpty)
	}
	unfinished := file + ".unfinished"
	if err := os.RemoveAll(unfinished); err != nil { // of an export that was killed
		return nil, err
	}
	e := &exporting{db: db, o: o}
	if e.to, err = bolt.Open(unfinished, 0o600, &bolt.Options{NoSync: true, NoGrowSync: true, Timeout: boltWait}); err != nil {
		return nil, err
	}
	err = db.ViewContext(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error { return e.all(ctx, txn) })
	if e.tx != nil {
		err = errors.Join(err, e.tx.Rollback())
	}
	if err == nil {
		err = e.to.Sync()
	}
	if err = errors.Join(err, e.to.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(unfinished))
	}
	if err := os.Rename(unfinished, file); err != nil {
		return nil, err
	}
	return &e.done, syncDir(filepath.Dir(file))
}

// exporting is an export under way.
type exporting struct {
	db    *brock.DB
	o     ExportOptions
	to    *bolt.DB
	tx    *bolt.Tx // nil: none is open
	bytes int64    // in tx
	done  Exported
	shown int64

	metas, expiries int64 // pairs that lose them
}

func (e *exporting) all(ctx context.Context, txn *brock.Txn) error {
	names, sequences := make(map[string]string), make(map[string]string)
	made := make(map[string]string) // keyspaces, by the escaped path of their bucket
	var spaces []*brock.Keyspace
	for ks := range e.db.Keyspaces() {
		var into map[string]string
		switch ks.Name() {
		case NamesKeyspace:
			into = names
		case SequencesKeyspace:
			into = sequences
		default:
			spaces = append(spaces, ks)
			continue
		}
		for item, err := range txn.In(ks).All() {
			if err != nil {
				return err
			}
			value, err := item.Value()
			if err != nil {
				return err
			}
			into[string(item.Key())] = string(value)
		}
	}
	if _, err := txn.First(nil, nil); err == nil {
		made[escaper.Replace(e.o.DefaultBucket)] = ""
		if err := e.space(ctx, txn, []string{e.o.DefaultBucket}, ""); err != nil {
			return err
		}
	} else if !errors.Is(err, brock.ErrKeyNotFound) {
		return err
	}
	for _, ks := range spaces {
		full := ks.Name()
		if long, ok := names[full]; ok {
			full = long
		}
		path := BucketPath(full)
		_, bucket := KeyspaceName(path...)
		if other, taken := made[bucket]; taken {
			return fmt.Errorf("keyspaces %.300q and %.300q would be the same bucket, so one %w: --default-bucket names another one for the default keyspace", other, ks.Name(), ErrRefused)
		}
		made[bucket] = ks.Name()
		if err := e.space(ctx, txn.In(ks), path, sequences[ks.Name()]); err != nil {
			return err
		}
	}
	if e.metas > 0 {
		e.done.Lost = append(e.done.Lost, fmt.Sprintf("bbolt has no meta byte: %d pairs had one", e.metas))
	}
	if e.expiries > 0 {
		e.done.Lost = append(e.done.Lost, fmt.Sprintf("bbolt has no time to live: %d pairs had one, and stay for ever", e.expiries))
	}
	return e.commit()
}

// space writes the pairs of one keyspace to its bucket.
func (e *exporting) space(ctx context.Context, txn *brock.Txn, path []string, sequence string) error {
	b, err := e.bucket(path)
	if err != nil {
		return err
	}
	e.done.Buckets++
	if n, err := strconv.ParseUint(sequence, 10, 64); err == nil {
		if err := b.SetSequence(n); err != nil {
			return err
		}
	}
	for item, err := range txn.All() {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		key := item.Key()
		value, err := item.Value()
		if err != nil {
			return err
		}
		if err := b.Put(key, value); err != nil {
			return fmt.Errorf("key %.60q of bucket %.300q %w: %w", key, path, ErrRefused, err)
		}
		if item.Meta() != 0 {
			e.metas++
		}
		if !item.ExpiresAt().IsZero() {
			e.expiries++
		}
		n := int64(len(key) + len(value))
		e.done.Pairs, e.done.Bytes, e.bytes = e.done.Pairs+1, e.done.Bytes+n, e.bytes+n
		if e.o.Progress != nil && e.done.Bytes-e.shown >= reportEvery {
			e.shown = e.done.Bytes
			e.o.Progress(Progress{Step: "export", Bytes: e.shown})
		}
		if e.bytes >= boltTxBytes {
			if err := e.commit(); err != nil {
				return err
			}
			if b, err = e.bucket(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// bucket returns the bucket of a path, made if it is not there, in a transaction.
func (e *exporting) bucket(path []string) (b *bolt.Bucket, err error) {
	if e.tx == nil {
		if e.tx, err = e.to.Begin(true); err != nil {
			return nil, err
		}
	}
	create := e.tx.CreateBucketIfNotExists
	for _, part := range path {
		if b, err = create([]byte(part)); err != nil {
			return nil, fmt.Errorf("bucket %.300q %w: %w", path, ErrRefused, err)
		}
		b.FillPercent = boltFill
		create = b.CreateBucketIfNotExists
	}
	return b, nil
}

func (e *exporting) commit() error {
	if e.tx == nil {
		return nil
	}
	tx := e.tx
	e.tx, e.bytes = nil, 0
	return tx.Commit()
}
