package main

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/pairs"
)

// historySort is the memory in which versions are sorted; more go to files.
const historySort = 64 << 20

// history writes all versions of all keys, deletes included, in the order of their commits, so that
// load can commit them one after the other. A store has them by key: another store, in the directory
// for temporary files, sorts them. First come the sections of all keyspaces, in the order in which
// they are first written to.
func (d *dumping) history(db *brock.DB, txn *brock.Txn, w pairs.Writer) (err error) {
	spaces := []*brock.Keyspace{db.Default()}
	for ks := range db.Keyspaces() {
		spaces = append(spaces, ks)
	}
	if d.only != nil {
		ks, err := keyspaceFlag{*d.only}.find(db)
		if err != nil {
			return err
		}
		spaces = []*brock.Keyspace{cmp.Or(ks, db.Default())}
	}
	dir, err := os.MkdirTemp("", "brock-export-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	sorted, err := brock.OpenContext(d.ctx, brock.Options{Dir: dir, Keys: db.Options().Keys, Durability: brock.Buffered})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sorted.Close()) }()
	first, err := d.sortVersions(txn, spaces, sorted)
	if err != nil {
		return err
	}
	slices.SortStableFunc(spaces, func(a, b *brock.Keyspace) int { return cmp.Compare(first[a.Name()]-1, first[b.Name()]-1) }) // without a version: the last
	for _, ks := range spaces {
		if ks.Name() != "" {
			if err := w.(pairs.SectionWriter).Begin(pairs.SectionOf(ks)); err != nil {
				return err
			}
		}
	}
	return sorted.ViewContext(d.ctx, brock.TxnOptions{}, func(txn *brock.Txn) error {
		for item, err := range txn.Items(brock.IteratorOptions{Prefetch: 64}) {
			if err != nil {
				return err
			}
			line, err := item.Value()
			if err != nil {
				return err
			}
			var p pairs.Pair
			if err := json.Unmarshal(line, &p); err != nil {
				return err
			}
			if err := w.Write(p); err != nil {
				return err
			}
		}
		return nil
	})
}

// sortVersions writes the lines of all versions to a store, under keys that sort by version, keyspace
// and key. It returns the first version in each keyspace.
func (d *dumping) sortVersions(txn *brock.Txn, spaces []*brock.Keyspace, sorted *brock.DB) (first map[string]uint64, err error) {
	l, err := sorted.Default().NewLoader(d.ctx, brock.LoadOptions{MaxMemory: historySort})
	if err != nil {
		return nil, err
	}
	defer l.Abort()
	first = make(map[string]uint64)
	for _, ks := range spaces {
		name := ks.Name()
		for item, err := range txn.In(ks).Items(brock.IteratorOptions{AllVersions: true, Prefetch: 64}) {
			if err != nil {
				return nil, err
			}
			p := pairs.KeyOf(item)
			p.Keyspace, p.Version, p.Deleted, p.OnlyLatest = &name, item.Version(), item.Deleted(), item.OnlyLatest()
			if p.Deleted {
				p = pairs.Pair{Key: p.Key, Keyspace: p.Keyspace, Version: p.Version, Deleted: true}
			} else if p.Value, err = item.ValueCopy(nil); err != nil {
				return nil, err
			}
			line, err := json.Marshal(p)
			if err != nil {
				return nil, err
			}
			key := binary.BigEndian.AppendUint64(nil, p.Version)
			if err := l.Set(binary.BigEndian.AppendUint64(key, uint64(d.written)), line); err != nil {
				return nil, fmt.Errorf("version %d of key %.60q: %w", p.Version, p.Key, err)
			}
			if at := first[name]; at == 0 || p.Version < at {
				first[name] = p.Version
			}
			d.written++
			d.work.Add(int64(len(p.Key) + len(p.Value)))
		}
	}
	_, err = l.Finish()
	return first, err
}
