package importers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/syndtr/goleveldb/leveldb"
	levelerrors "github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// levelSource is a store of LevelDB. goleveldb opens a stand-in for it.
type levelSource struct {
	path    string
	db      *leveldb.DB
	files   *overlay // nil: the library has the directory
	release func()
}

func openLevel(path, staged string) (_ source, err error) {
	s := &levelSource{path: path}
	if s.release, err = lockPath(filepath.Join(path, lockName), false); err != nil {
		return nil, err
	}
	o := &opt.Options{ErrorIfMissing: true, ReadOnly: true, Strict: opt.StrictAll}
	if err = stageFiles(path, staged, linked); err == nil {
		err = sourceError(path, guard(func() (err error) {
			s.db, err = leveldb.OpenFile(staged, o)
			return err
		}))
	}
	if errors.Is(err, ErrSource) {
		// goleveldb can't open a store read-only that has two journals.
		if again := s.openOverlay(staged, o); again == nil {
			err = nil
		}
	}
	var damage *levelerrors.ErrCorrupted
	if errors.As(err, &damage) {
		if m, ok := damage.Err.(*leveldb.ErrManifestCorrupted); ok && m.Field == "comparer" {
			err = fmt.Errorf("%s %w: its keys have an order of their own, and only the order of bytes is known: %s", path, ErrSource, m.Reason)
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// openOverlay opens the store to write, so that journals become tables. It writes to the directory
// staged, which has all but the tables of the source; those are only read.
func (s *levelSource) openOverlay(staged string, o *opt.Options) error {
	if err := stageFiles(s.path, staged, leftOut); err != nil {
		return err
	}
	return guard(func() error {
		files, err := storage.OpenFile(staged, false)
		if err != nil {
			return err
		}
		s.files = &overlay{Storage: files, below: s.path, gone: make(map[storage.FileDesc]bool)}
		o.ReadOnly = false
		// Compactions are of no use here.
		o.CompactionL0Trigger, o.WriteL0PauseTrigger, o.WriteL0SlowdownTrigger = 1<<20, 1<<20, 1<<20
		o.DisableSeeksCompaction = true
		s.db, err = leveldb.Open(s.files, o)
		return err
	})
}

// overlay is the storage of a directory, and the tables of another one, which is never written to.
type overlay struct {
	storage.Storage
	below string

	mu   sync.Mutex                // goleveldb removes files in the background
	gone map[storage.FileDesc]bool // of the tables below that were removed, or made anew
}

// List lists the files of both directories.
func (o *overlay) List(t storage.FileType) ([]storage.FileDesc, error) {
	all, err := o.Storage.List(t)
	if err != nil || t&storage.TypeTable == 0 {
		return all, err
	}
	entries, err := os.ReadDir(o.below)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range entries {
		name, ext, _ := strings.Cut(e.Name(), ".")
		n, err := strconv.ParseInt(name, 10, 64)
		fd := storage.FileDesc{Type: storage.TypeTable, Num: n}
		if err == nil && (ext == "ldb" || ext == "sst") && !o.gone[fd] && !slices.Contains(all, fd) {
			all = append(all, fd)
		}
	}
	return all, nil
}

// Open opens a file to read it.
func (o *overlay) Open(fd storage.FileDesc) (storage.Reader, error) {
	o.mu.Lock()
	gone := o.gone[fd]
	o.mu.Unlock()
	if fd.Type == storage.TypeTable && !gone {
		for _, ext := range []string{"ldb", "sst"} {
			f, err := os.Open(filepath.Join(o.below, fmt.Sprintf("%06d.%s", fd.Num, ext)))
			if !errors.Is(err, fs.ErrNotExist) {
				return f, err
			}
		}
	}
	return o.Storage.Open(fd)
}

// Create creates a file in the upper directory.
func (o *overlay) Create(fd storage.FileDesc) (storage.Writer, error) {
	o.mu.Lock()
	o.gone[fd] = true
	o.mu.Unlock()
	return o.Storage.Create(fd)
}

// Remove removes a file of the upper directory, and hides one of the other.
func (o *overlay) Remove(fd storage.FileDesc) error {
	o.mu.Lock()
	o.gone[fd] = true
	o.mu.Unlock()
	if err := o.Storage.Remove(fd); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
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
	if s.files != nil {
		err = errors.Join(err, s.files.Close())
	}
	s.release()
	return err
}
