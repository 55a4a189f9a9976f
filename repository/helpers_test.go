package repository_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/repository"
	"github.com/brockdb/brock/vfs"
)

// memStore keeps objects in memory, by a clock of its own. Before each call it asks fault:
// an error fails the call, and done says that the call is done nevertheless.
type memStore struct {
	mu      sync.Mutex
	objects map[string][]byte
	times   map[string]time.Time
	now     time.Time
	put     int64 // bytes

	fault func(op, name string) (err error, done bool)
}

func newMemStore() *memStore {
	return &memStore{objects: map[string][]byte{}, times: map[string]time.Time{}, now: time.Unix(1700000000, 0)}
}

func (s *memStore) asked(ctx context.Context, op, name string) (error, bool) {
	if ctx.Err() != nil {
		return ctx.Err(), false
	}
	if s.fault == nil {
		return nil, true
	}
	return s.fault(op, name)
}

func (s *memStore) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	fault, done := s.asked(ctx, "put", name)
	if fault != nil && !done {
		return fault
	}
	p, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if int64(len(p)) != size {
		return io.ErrUnexpectedEOF
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[name] != nil {
		return fmt.Errorf("%s: put twice", name)
	}
	s.objects[name], s.times[name] = p, s.now
	s.put += size
	return fault
}

func (s *memStore) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if err, _ := s.asked(ctx, "get", name); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.objects[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return io.NopCloser(bytes.NewReader(p)), nil
}

func (s *memStore) List(ctx context.Context, prefix string, fn func(repository.Object) error) error {
	if err, _ := s.asked(ctx, "list", prefix); err != nil {
		return err
	}
	s.mu.Lock()
	var list []repository.Object
	for name, p := range s.objects {
		if strings.HasPrefix(name, prefix) {
			list = append(list, repository.Object{Name: name, Size: int64(len(p)), Time: s.times[name]})
		}
	}
	s.mu.Unlock()
	for _, o := range list {
		if err := fn(o); err != nil {
			return err
		}
	}
	return nil
}

func (s *memStore) Delete(ctx context.Context, name string) error {
	fault, done := s.asked(ctx, "delete", name)
	if fault != nil && !done {
		return fault
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, name)
	return fault
}

// clone returns a store with the same objects.
func (s *memStore) clone() *memStore {
	return &memStore{objects: maps.Clone(s.objects), times: maps.Clone(s.times), now: s.now}
}

func (s *memStore) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

// names lists the objects whose name begins with prefix, sorted.
func (s *memStore) names(prefix string) (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.objects {
		if strings.HasPrefix(name, prefix) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// open opens a store with small files, which does nothing by itself.
func open(t testing.TB, fsys vfs.FS, dir string) *brock.DB {
	t.Helper()
	db, err := brock.Open(brock.Options{
		Dir: dir, FS: fsys, KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Versions: 3}},
		Maintenance: brock.Maintenance{IdleAfter: time.Hour}, // a busy machine makes no file anew
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// change writes n pairs, a few of them large, deletes some, and flushes.
func change(t testing.TB, db *brock.DB, seed uint64, n int) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	other, err := db.Keyspace("other")
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		key := fmt.Appendf(nil, "key %05d", random.IntN(4*n))
		value := make([]byte, random.IntN(200))
		if i%10 == 0 {
			value = make([]byte, 5000)
		}
		for j := range value {
			value[j] = byte(random.Uint32())
		}
		if err := db.Set(key, value); err != nil {
			t.Fatal(err)
		}
		if i%7 == 0 {
			if err := errors.Join(db.Delete(fmt.Appendf(nil, "key %05d", random.IntN(4*n))), other.Set(key, value)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := db.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// contents lists all versions of all keys of all keyspaces.
func contents(t testing.TB, db *brock.DB) string {
	t.Helper()
	var s strings.Builder
	for ks := range db.Keyspaces() {
		fmt.Fprintf(&s, "keyspace %q\n", ks.Name())
		err := db.View(func(txn *brock.Txn) error {
			for item, err := range txn.In(ks).Items(brock.IteratorOptions{AllVersions: true}) {
				if err != nil {
					return err
				}
				var value []byte
				if !item.Deleted() {
					if value, err = item.ValueCopy(nil); err != nil {
						return err
					}
				}
				fmt.Fprintf(&s, "%s %d %v %x\n", item.Key(), item.Version(), item.Deleted(), value)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s.String()
}

// backup makes a backup.
func backup(t testing.TB, db *brock.DB, s repository.Store) repository.Done {
	t.Helper()
	done, err := repository.Backup(t.Context(), db, s, repository.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// restored restores a backup, verifies the store, and returns what is in it.
func restored(t testing.TB, s repository.Store, id string) string {
	t.Helper()
	fsys := vfs.NewMem()
	if _, err := repository.Restore(t.Context(), s, id, "restored", repository.RestoreOptions{FS: fsys}); err != nil {
		t.Fatal(err)
	}
	db, err := brock.Open(brock.Options{Dir: "restored", FS: fsys, MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Verify(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return contents(t, db)
}

// verified fails unless all backups of a repository can be restored.
func verified(t testing.TB, s repository.Store) repository.Verified {
	t.Helper()
	v, err := repository.Verify(t.Context(), s, repository.VerifyOptions{}, func(c *brock.CorruptionError) { t.Error(c) })
	if err != nil {
		t.Fatal(err)
	}
	return v
}
