package importers

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// levelSource is a store of LevelDB. goleveldb opens a stand-in for it read-only, and replays its
// journal in memory.
type levelSource struct {
	path    string
	db      *leveldb.DB
	release func()
}

func openLevel(path, staged string) (_ source, err error) {
	s := &levelSource{path: path}
	if s.release, err = lock(filepath.Join(path, lockName), false); err != nil {
		return nil, err
	}
	if err = stage(path, staged, false); err == nil {
		err = sourceError(path, guard(func() (err error) {
			s.db, err = leveldb.OpenFile(staged, &opt.Options{ErrorIfMissing: true, ReadOnly: true, Strict: opt.StrictAll})
			return err
		}))
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *levelSource) spaces(context.Context) ([]space, error) { return []space{{}}, nil }

func (s *levelSource) scan(ctx context.Context, _ string, from []byte, fn func(*pair) error) error {
	var it iterator.Iterator
	valid := false
	err := guard(func() error {
		it = s.db.NewIterator(&util.Range{Start: from}, &opt.ReadOptions{DontFillCache: true, Strict: opt.StrictAll})
		valid = it.Next()
		return nil
	})
	if it == nil {
		return sourceError(s.path, err)
	}
	defer it.Release()
	var p pair
	for err == nil && valid {
		p.key, p.value = it.Key(), it.Value()
		if err := errors.Join(ctx.Err(), fn(&p)); err != nil {
			return err
		}
		err = guard(func() error { valid = it.Next(); return nil })
	}
	if err == nil {
		err = it.Error()
	}
	return sourceError(s.path, err)
}

func (s *levelSource) history(context.Context, func(*pair) error) error { return errNoHistory }

func (s *levelSource) lost(context.Context) ([]string, error) { return nil, nil }

func (s *levelSource) close() (err error) {
	if s.db != nil {
		err = guard(s.db.Close)
	}
	s.release()
	return err
}
