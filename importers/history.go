package importers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/brockdb/brock"
)

// Badger's versions lie by key, and Brock wants commits in rising order. So they are sorted first: a
// store beside the target gets a pair for each version, whose key begins with the version.

const (
	sortedFile = "sorted" // in the work directory: the store of versions is whole
	sortMemory = 64 << 20 // bytes in memory while versions are sorted; more go to files

	// A commit has the writes of several versions, up to so many bytes or versions.
	commitBytes    = 4 << 20
	commitVersions = 4096
)

// importHistory writes all versions. The store's own version says how far an earlier import has come,
// as its commits are whole, and have nothing but versions of the source.
func (i *importing) importHistory(ctx context.Context) (err error) {
	o := brock.Options{Dir: filepath.Join(i.work.dir, "versions"), Keys: i.Store.Keys, Durability: brock.Buffered}
	done := filepath.Join(i.work.dir, sortedFile)
	_, missing := os.Stat(done)
	if missing != nil {
		if err := os.RemoveAll(o.Dir); err != nil { // of an import that was killed
			return err
		}
	}
	sorted, err := brock.OpenContext(ctx, o)
	if err != nil {
		return err
	}
	defer cleanup(&err, sorted.Close)
	if missing != nil {
		if err := i.sortVersions(ctx, sorted); err != nil {
			return err
		}
		if err := writeSynced(done, nil); err != nil {
			return err
		}
	}
	return i.commitVersions(ctx, sorted)
}

// sortVersions writes all versions of the source to a store, in one commit.
func (i *importing) sortVersions(ctx context.Context, to *brock.DB) error {
	l, err := to.Default().NewLoader(ctx, brock.LoadOptions{MaxMemory: sortMemory})
	if err != nil {
		return err
	}
	defer l.Abort()
	var bytes int64
	var key, value, last []byte
	lastVersion := uint64(0)
	err = i.source.history(ctx, func(p *pair) error {
		switch {
		case p.version == 0 || p.version > brock.MaxCommitAt:
			return fmt.Errorf("key %.60q has version %d, which %w: Brock's are from 1 to %d; import without history", p.key, p.version, ErrRefused, uint64(brock.MaxCommitAt))
		case p.version == lastVersion && string(p.key) == string(last):
			return nil // an older copy of the same version
		}
		last, lastVersion = append(last[:0], p.key...), p.version
		key = append(binary.BigEndian.AppendUint64(key[:0], p.version), p.key...)
		value = appendVersion(value[:0], p)
		bytes += int64(len(p.key) + len(p.value))
		i.report("sort", bytes)
		return refusedPair("", p, l.Set(key, value))
	})
	if err != nil {
		return err
	}
	i.total = max(bytes, 1)
	_, err = l.Finish()
	return err
}

// The bits of the first byte of a version in the sorted store.
const (
	deletedBit    = 1
	onlyLatestBit = 2
	versionHead   = 10 // bits, meta, 8 bytes of the expiry
)

// appendVersion appends what a version has beside its key.
func appendVersion(to []byte, p *pair) []byte {
	var bits byte
	if p.deleted {
		bits |= deletedBit
	}
	if p.onlyLatest {
		bits |= onlyLatestBit
	}
	to = binary.BigEndian.AppendUint64(append(to, bits, p.meta), p.expires)
	return append(to, p.value...)
}

// versionOf reads what appendVersion has written.
func versionOf(key, value []byte) (p pair, err error) {
	if len(key) < 8 || len(value) < versionHead {
		return p, errors.New("the sorted versions are damaged: remove the unfinished import, and begin anew")
	}
	return pair{
		key: key[8:], value: value[versionHead:], version: binary.BigEndian.Uint64(key), meta: value[1],
		expires: binary.BigEndian.Uint64(value[2:versionHead]),
		deleted: value[0]&deletedBit != 0, onlyLatest: value[0]&onlyLatestBit != 0,
	}, nil
}

// commitVersions writes the sorted versions that the store does not have.
func (i *importing) commitVersions(ctx context.Context, sorted *brock.DB) error {
	from := binary.BigEndian.AppendUint64(nil, i.db.Version()+1)
	v := versions{importing: i, batch: i.db.NewBatch()}
	err := sorted.ViewContext(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error {
		for item, err := range txn.Range(from, nil) {
			if err != nil {
				return err
			}
			value, err := item.Value()
			if err != nil {
				return err
			}
			p, err := versionOf(item.Key(), value)
			if err != nil {
				return err
			}
			if err := v.add(ctx, &p); err != nil {
				return err
			}
		}
		return v.endVersion(ctx)
	})
	if err != nil && (ctx.Err() == nil || v.failed) {
		return err
	}
	// When the import is interrupted, what has come is stored all the same.
	return errors.Join(err, v.commit(context.WithoutCancel(ctx)))
}

// versions gathers writes for commits. The writes of one version are held back until they are
// complete, up to commitBytes; more than that become a commit of their own, which may be of any size.
type versions struct {
	*importing
	batch  *brock.Batch
	count  int    // versions in batch
	size   int64  // bytes in batch
	held   []pair // of one version, which is not in batch; copies
	bytes  int64  // in held
	direct uint64 // the version that is going to batch directly; 0 = none
	failed bool   // a write or a commit has failed
}

func (v *versions) add(ctx context.Context, p *pair) error {
	if v.direct == p.version {
		return v.write(p)
	}
	if len(v.held) > 0 && v.held[0].version != p.version || v.direct != 0 {
		if err := v.endVersion(ctx); err != nil {
			return err
		}
	}
	c := *p
	c.key, c.value = append([]byte(nil), p.key...), append([]byte(nil), p.value...)
	v.held = append(v.held, c)
	v.bytes += int64(len(c.key)+len(c.value)) + pairOverhead
	if v.bytes <= commitBytes {
		return nil
	}
	if err := v.commit(ctx); err != nil {
		return err
	}
	v.direct = p.version
	return v.writeHeld()
}

// pairOverhead is what a pair that is held takes in memory beside its key and value.
const pairOverhead = 160

// endVersion is called when all writes of a version have come.
func (v *versions) endVersion(ctx context.Context) error {
	if v.direct != 0 {
		v.direct = 0
		return v.commit(ctx)
	}
	if v.count > 0 && (v.size+v.bytes > commitBytes || v.count >= commitVersions) {
		if err := v.commit(ctx); err != nil {
			return err
		}
	}
	return v.writeHeld()
}

// writeHeld moves what is held to the batch, as its next version.
func (v *versions) writeHeld() error {
	if len(v.held) == 0 {
		return nil
	}
	if err := v.batch.At(v.held[0].version); err != nil {
		v.failed = true
		return err
	}
	for n := range v.held {
		if err := v.write(&v.held[n]); err != nil {
			return err
		}
	}
	v.count, v.size = v.count+1, v.size+v.bytes
	clear(v.held) // their memory
	v.held, v.bytes = v.held[:0], 0
	return nil
}

// write adds a write to the batch.
func (v *versions) write(p *pair) (err error) {
	if p.deleted {
		err = v.batch.Delete(p.key)
	} else {
		err = v.batch.SetEntry(entryOf(p))
	}
	if err != nil {
		v.failed = true
		return refusedPair("", p, err)
	}
	v.summary.Pairs++
	v.summary.Bytes += int64(len(p.key) + len(p.value))
	v.report("import", v.summary.Bytes)
	return nil
}

// commit commits the batch. A version that is not complete must not be in it.
func (v *versions) commit(ctx context.Context) error {
	if v.direct != 0 {
		return nil // it was interrupted: the version comes again
	}
	_, err := v.batch.Commit(ctx, brock.Synced)
	v.failed = v.failed || err != nil
	v.batch.Reset()
	v.count, v.size = 0, 0
	return err
}
