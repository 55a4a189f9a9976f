package importers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// badgerSource is a store of Badger of any version. The library opens a stand-in for it read-only. If
// the store was not closed in order, only an opening to write replays its log: then the stand-in is a
// whole copy.
type badgerSource struct {
	path    string
	db      badgerStore
	log     badgerLog
	release []func()
}

// badgerLog is the logger of Badger. A value that can't be read is for Badger a message, and an empty
// value, so messages of errors count.
type badgerLog struct {
	quiet
	mu    sync.Mutex
	count int
	last  string
}

// Errorf is called by any goroutine.
func (l *badgerLog) Errorf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	l.last = fmt.Sprintf(format, args...)
}

// since returns an error if there were more messages than before, and how many there are.
func (l *badgerLog) since(before int) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count > before {
		return l.count, fmt.Errorf("badger says: %.500s", strings.TrimSpace(l.last))
	}
	return l.count, nil
}

// badgerStore is what the versions of Badger have in common, once a store is open.
type badgerStore struct {
	walk  func(allVersions bool, from []byte, fn func(*pair) error) error
	close func() error
}

// badgerOpening is how a store is to be opened. dir has a stand-in for the source.
type badgerOpening struct {
	dir, valueDir string
	key           []byte // nil: it is not encrypted
	write         bool   // replay its log
	memtable      int64  // bytes that a memtable must have room for
	magic         uint16 // of the program that has written it
	log           *badgerLog
}

// badgerOpen opens a store of one version of Badger.
type badgerOpen func(o *badgerOpening) (badgerStore, error)

func openBadger(open badgerOpen, o *Options, staged string) (_ source, err error) {
	s := &badgerSource{path: o.Source}
	defer func() {
		if err != nil {
			_ = s.close()
		}
	}()
	if _, err := os.Stat(filepath.Join(o.Source, "MANIFEST")); err != nil {
		return nil, err
	}
	dirs := []string{o.Source}
	b := &badgerOpening{dir: filepath.Join(staged, "keys"), key: o.SourceKey, log: &s.log}
	b.valueDir = b.dir
	if o.SourceValueDir != "" {
		dirs, b.valueDir = append(dirs, o.SourceValueDir), filepath.Join(staged, "values")
	}
	for _, dir := range dirs {
		release, err := lockPath(dir, false)
		if err != nil {
			return nil, err
		}
		s.release = append(s.release, release)
	}
	// Without its value log, a store that was not closed in order would seem to be an older one.
	if logs, err := filepath.Glob(filepath.Join(dirs[len(dirs)-1], "*.vlog")); err != nil || len(logs) == 0 {
		return nil, errors.Join(fmt.Errorf("%s %w: it has no value log; has that a directory of its own?", dirs[len(dirs)-1], ErrSource), err)
	}
	if b.memtable, err = largestMemtable(o.Source); err != nil {
		return nil, err
	}
	if b.magic, err = externalMagic(o.Source); err != nil {
		return nil, err
	}
	for _, b.write = range []bool{false, true} {
		how := linked
		if b.write {
			how = copied
		}
		for i, to := range []string{b.dir, b.valueDir}[:len(dirs)] {
			if err := stageFiles(dirs[i], to, how); err != nil {
				return nil, err
			}
		}
		err = guard(func() (err error) { s.db, err = open(b); return err })
		if err == nil {
			return s, nil
		}
		if s.db.close != nil {
			_ = guard(s.db.close)
			s.db.close = nil
		}
	}
	return nil, sourceError(o.Source, err)
}

// largestMemtable returns the size of the largest log of a memtable. Badger 3 and 4 end the process
// if a memtable has no room for its log.
func largestMemtable(dir string) (size int64, err error) {
	logs, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	for _, path := range logs {
		info, err := os.Stat(path)
		if err != nil {
			return 0, err
		}
		size = max(size, info.Size())
	}
	return max(size, 64<<20), err
}

// externalMagic returns the number by which a program tells its stores of Badger 4 from others. It
// stands in the first bytes of MANIFEST.
func externalMagic(dir string) (uint16, error) {
	head := make([]byte, 8)
	f, err := os.Open(filepath.Join(dir, "MANIFEST"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // it is only read
	if _, err := f.ReadAt(head, 0); err != nil || string(head[:4]) != "Bdgr" {
		return 0, fmt.Errorf("%s: no MANIFEST of Badger: %w", dir, errors.Join(fs.ErrInvalid, ErrSource))
	}
	return uint16(head[4])<<8 | uint16(head[5]), nil
}

func (s *badgerSource) spaces(context.Context) ([]space, error) { return []space{{}}, nil }

func (s *badgerSource) scan(ctx context.Context, _ string, from []byte, fn func(*pair) error) error {
	now := time.Now()
	return s.walk(ctx, false, from, func(p *pair) error {
		if expired(p.expiry(), now) {
			return nil
		}
		return fn(p)
	})
}

func (s *badgerSource) history(ctx context.Context, fn func(*pair) error) error {
	return s.walk(ctx, true, nil, fn)
}

func (s *badgerSource) walk(ctx context.Context, all bool, from []byte, fn func(*pair) error) error {
	var refused error // of fn or ctx: no error of the source
	logged, _ := s.log.since(math.MaxInt)
	err := s.db.walk(all, from, func(p *pair) error {
		if _, err := s.log.since(logged); err != nil {
			return err
		}
		refused = errors.Join(ctx.Err(), fn(p))
		return refused
	})
	if refused != nil {
		return refused
	}
	if err == nil {
		_, err = s.log.since(logged)
	}
	return sourceError(s.path, err)
}

func (s *badgerSource) lost(context.Context) ([]string, error) { return nil, nil }

func (s *badgerSource) close() (err error) {
	if s.db.close != nil {
		err = guard(s.db.close)
	}
	for _, release := range s.release {
		release()
	}
	return err
}

// badgerItem is what an item of each version of Badger is.
type badgerItem interface {
	Key() []byte
	Version() uint64
	UserMeta() byte
	ExpiresAt() uint64
	IsDeletedOrExpired() bool
	DiscardEarlierVersions() bool
	Value(fn func([]byte) error) error
}

// badgerIterator is what an iterator of each version of Badger is.
type badgerIterator[Item badgerItem] interface {
	Seek(key []byte)
	Rewind()
	Valid() bool
	Next()
	Item() Item
}

// walkBadger calls fn with what an iterator walks.
func walkBadger[Item badgerItem](it badgerIterator[Item], from []byte, fn func(*pair) error) error {
	begin := it.Rewind
	if from != nil {
		begin = func() { it.Seek(from) }
	}
	if err := guard(func() error { begin(); return nil }); err != nil {
		return err
	}
	for {
		var p pair
		valid := false
		err := guard(func() error {
			if valid = it.Valid(); !valid {
				return nil
			}
			item := it.Item()
			p = pair{key: item.Key(), version: item.Version(), expires: item.ExpiresAt(), onlyLatest: item.DiscardEarlierVersions()}
			if item.IsDeletedOrExpired() {
				// What has expired has an expiry, and a delete has none. The value of neither is
				// certain to be there.
				p.deleted = p.expires == 0
				return nil
			}
			p.meta = item.UserMeta()
			// A slice of Badger's is valid until the iterator moves, which is after fn has returned.
			return item.Value(func(v []byte) error { p.value = v; return nil })
		})
		if err != nil || !valid {
			return err
		}
		if err := fn(&p); err != nil {
			return err
		}
		if err := guard(func() error { it.Next(); return nil }); err != nil {
			return err
		}
	}
}

// badgerPrefetch is how many values Badger reads ahead: few, as each may be large.
const badgerPrefetch = 16

// badgerCache is the size of each of its caches, in bytes.
const badgerCache = 32 << 20
