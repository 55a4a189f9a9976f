package importers

import (
	"cmp"
	"context"
	"errors"
	"strconv"

	"github.com/brockdb/brock"
)

// importNewest writes the newest pair of each key, in the order of the keys. So an import that goes on
// begins behind the last key that the store has.
func (i *importing) importNewest(ctx context.Context) error {
	spaces, err := i.source.spaces(ctx)
	if err != nil {
		return err
	}
	if err := i.noteBuckets(ctx, spaces); err != nil {
		return err
	}
	_, i.before = i.db.EstimateSize(nil, nil)
	for ks := range i.db.Keyspaces() {
		_, bytes := ks.EstimateSize(nil, nil)
		i.before += bytes
	}
	for n := range spaces {
		ks, err := keyspaceOf(i.db, spaces[n].name)
		if err != nil {
			return err
		}
		if ks.Name() != "" {
			i.summary.Keyspaces++
		}
		if err := i.importSpace(ctx, ks); err != nil {
			return err
		}
	}
	return nil
}

// keyspaceOf returns the keyspace of a name, and makes it if there is none.
func keyspaceOf(db *brock.DB, name string) (*brock.Keyspace, error) {
	if name == "" {
		return db.Default(), nil
	}
	return db.Keyspace(name)
}

// importSpace writes the pairs of one keyspace that are not there yet.
func (i *importing) importSpace(ctx context.Context, ks *brock.Keyspace) error {
	var from []byte
	err := ks.ViewContext(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error {
		last, err := txn.Last(nil, nil)
		if errors.Is(err, brock.ErrKeyNotFound) {
			return nil
		}
		if err == nil {
			from = keyAfter(last.Key())
		}
		return err
	})
	if err != nil {
		return err
	}
	c := chunk{ctx: ctx, keyspace: ks, limit: cmp.Or(i.chunkBytes, defaultChunk)}
	defer c.abort()
	err = i.source.scan(ctx, ks.Name(), from, func(p *pair) error {
		if err := c.add(p); err != nil {
			return refusedPair(ks.Name(), p, err)
		}
		i.summary.Pairs++
		i.summary.Bytes += int64(len(p.key) + len(p.value))
		i.report("import", i.before+i.summary.Bytes)
		return nil
	})
	if err != nil && ctx.Err() == nil {
		return err
	}
	// When the import is interrupted, what has come is stored all the same.
	return errors.Join(err, c.finish())
}

// chunk is what is committed together.
type chunk struct {
	ctx      context.Context
	keyspace *brock.Keyspace
	limit    int64 // bytes
	loader   *brock.Loader
	bytes    int64 // of keys and values
}

func (c *chunk) add(p *pair) (err error) {
	if c.loader == nil {
		// Its own context: an interrupted import stores what it has.
		if c.loader, err = c.keyspace.NewLoader(context.WithoutCancel(c.ctx), brock.LoadOptions{Sorted: true}); err != nil {
			return err
		}
	}
	if err := c.loader.SetEntry(entryOf(p)); err != nil {
		return err
	}
	if c.bytes += int64(len(p.key) + len(p.value)); c.bytes >= c.limit {
		return c.finish()
	}
	return nil
}

// finish commits what has come, durably.
func (c *chunk) finish() error {
	if c.loader == nil {
		return nil
	}
	l := c.loader
	c.loader, c.bytes = nil, 0
	_, err := l.Finish()
	return err
}

func (c *chunk) abort() {
	if c.loader != nil {
		c.loader.Abort()
	}
}

// entryOf returns a pair as an entry. It has the bytes of the pair.
func entryOf(p *pair) *brock.Entry {
	e := brock.NewEntry(p.key, p.value).WithMeta(p.meta).WithExpiry(p.expiry())
	if p.onlyLatest {
		e = e.WithOnlyLatest()
	}
	return e
}

// noteBuckets keeps what a keyspace can't say of its bucket: sequences, and names that are too long.
func (i *importing) noteBuckets(ctx context.Context, spaces []space) error {
	for name, pairs := range notesOf(spaces) {
		if len(pairs) == 0 {
			continue
		}
		ks, err := i.db.Keyspace(name)
		if err != nil {
			return err
		}
		// Nothing in small steps: the notes of a million buckets are a few hundred megabytes.
		b := ks.NewBatch()
		for _, p := range pairs {
			if err := b.Set([]byte(p[0]), []byte(p[1])); err != nil {
				return err
			}
		}
		if _, err := b.Commit(ctx, brock.Synced); err != nil {
			return err
		}
	}
	return nil
}

// notesOf returns the pairs of the keyspaces that keep what others can't say, in rising order.
func notesOf(spaces []space) map[string][][2]string {
	notes := map[string][][2]string{SequencesKeyspace: nil, NamesKeyspace: nil}
	for _, s := range spaces {
		if s.sequence != 0 {
			notes[SequencesKeyspace] = append(notes[SequencesKeyspace], [2]string{s.name, strconv.FormatUint(s.sequence, 10)})
		}
		if s.path != s.name {
			notes[NamesKeyspace] = append(notes[NamesKeyspace], [2]string{s.name, s.path})
		}
	}
	return notes
}
