package importers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// boltSource is a file of bbolt. The library opens it read-only.
type boltSource struct {
	path  string
	db    *bolt.DB
	tx    *bolt.Tx
	paths map[string][]string // of the buckets, by the name of the keyspace
}

// boltWait is how long another process may hold the file. bbolt tries every 50 ms.
const boltWait = 200 * time.Millisecond

func openBolt(path string) (source, error) {
	s := &boltSource{path: path, paths: make(map[string][]string)}
	err := guard(func() (err error) {
		if s.db, err = bolt.Open(path, 0o400, &bolt.Options{ReadOnly: true, Timeout: boltWait}); err != nil {
			return err
		}
		s.tx, err = s.db.Begin(false)
		return err
	})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("%s is %w", path, ErrInUse)
	}
	if err != nil {
		return nil, errors.Join(sourceError(path, err), s.close())
	}
	return s, nil
}

func (s *boltSource) spaces(ctx context.Context) (all []space, err error) {
	var visit func(b *bolt.Bucket, path []string) error
	// The cursor of a transaction and that of a bucket walk the buckets alike.
	children := func(c *bolt.Cursor, open func([]byte) *bolt.Bucket, path []string) error {
		for k, v := c.First(); k != nil; k, v = c.Next() {
			if v != nil {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := visit(open(k), append(slices.Clone(path), string(k))); err != nil {
				return err
			}
		}
		return nil
	}
	visit = func(b *bolt.Bucket, path []string) error {
		name, full := KeyspaceName(path...)
		s.paths[name] = path
		all = append(all, space{name: name, sequence: b.Sequence(), path: full})
		return children(b.Cursor(), b.Bucket, path)
	}
	err = guard(func() error { return children(s.tx.Cursor(), s.tx.Bucket, nil) })
	slices.SortFunc(all, func(a, b space) int { return strings.Compare(a.name, b.name) })
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return all, sourceError(s.path, err)
}

// bucket returns the bucket of a keyspace; nil if there is none.
func (s *boltSource) bucket(name string) (b *bolt.Bucket) {
	for i, part := range s.paths[name] {
		if i == 0 {
			b = s.tx.Bucket([]byte(part))
		} else {
			b = b.Bucket([]byte(part))
		}
		if b == nil {
			return nil
		}
	}
	return b
}

func (s *boltSource) scan(ctx context.Context, name string, from []byte, fn func(*pair) error) error {
	var c *bolt.Cursor
	var p pair
	next := func() { p.key, p.value = c.Next() }
	err := guard(func() error {
		b := s.bucket(name)
		if b == nil {
			return errors.New("a bucket is missing")
		}
		c = b.Cursor()
		next := c.First
		if from != nil {
			next = func() ([]byte, []byte) { return c.Seek(from) }
		}
		p.key, p.value = next()
		return nil
	})
	for err == nil && p.key != nil {
		if p.value != nil { // else it is a bucket
			if err := errors.Join(ctx.Err(), fn(&p)); err != nil {
				return err
			}
		}
		err = guard(func() error { next(); return nil })
	}
	return sourceError(s.path, err)
}

func (s *boltSource) history(context.Context, func(*pair) error) error { return errNoHistory }

func (s *boltSource) lost(context.Context) ([]string, error) { return nil, nil }

func (s *boltSource) close() (err error) {
	return guard(func() (err error) {
		if s.tx != nil {
			err = s.tx.Rollback()
		}
		if s.db != nil {
			err = errors.Join(err, s.db.Close())
		}
		return err
	})
}

// keyAfter returns the least key that is greater.
func keyAfter(key []byte) []byte { return append(bytes.Clone(key), 0) }
