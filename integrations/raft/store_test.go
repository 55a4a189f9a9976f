package raftstore

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/vfs"
	"github.com/hashicorp/raft"
)

// openMemory opens a group in a new store in memory.
func openMemory(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := OpenStore(brock.Options{InMemory: true}, o)
	assert.OK(t, err)
	t.Cleanup(func() { assert.OK(t, s.Close()) })
	return s
}

// entries returns the entries from first to last of a term, of various sizes.
func entries(first, last, term uint64) (logs []*raft.Log) {
	for index := first; index <= last; index++ {
		logs = append(logs, entry(index, term, 0))
	}
	return logs
}

// TestDirectory: a directory belongs to one Store at a time, and has what the last one left.
func TestDirectory(t *testing.T) {
	dir := t.TempDir() + "/raft"
	s, err := Open(dir, Options{})
	assert.OK(t, err)
	_, err = Open(dir, Options{})
	assert.Error(t, "a second Open", err, brock.ErrLocked)
	assert.OK(t, s.StoreLogs(entries(1, 100, 1)))
	assert.OK(t, s.SetUint64([]byte("CurrentTerm"), 7))
	assert.OK(t, s.Close())
	assert.OK(t, s.Close())
	s, err = Open(dir, Options{})
	assert.OK(t, err)
	assert.Equal(t, "the log", checkLog(t, s), "1 to 100 of term 1")
	assert.Equal(t, "the term", assert.Must(s.GetUint64([]byte("CurrentTerm"))), 7)
	assert.OK(t, s.Close())
	_, err = Open("", Options{})
	assert.Error(t, "no directory", err, brock.ErrInvalid)
	// A file in the place of the directory.
	name := t.TempDir() + "/file"
	assert.OK(t, os.WriteFile(name, nil, 0o600))
	if _, err := Open(name, Options{}); err == nil {
		t.Error("a file was opened as a directory")
	}
}

// TestReadOnly: a tool reads a log without the right to change it.
func TestReadOnly(t *testing.T) {
	disk := vfs.NewMem()
	o := brock.Options{Dir: "raft", FS: disk, Mode: brock.ReadOnly}
	_, err := OpenStore(o, Options{})
	assert.Error(t, "no store", err, brock.ErrNotExist)
	s := assert.Must(OpenStore(brock.Options{Dir: "raft", FS: disk}, Options{}))
	assert.OK(t, s.StoreLogs(entries(1, 3, 1)))
	assert.OK(t, s.Set([]byte("key"), []byte("value")))
	assert.OK(t, s.Close())
	_, err = OpenStore(o, Options{Group: "another"})
	assert.Error(t, "no group", err, brock.ErrKeyspaceNotFound)
	s, err = OpenStore(o, Options{})
	assert.OK(t, err)
	assert.Equal(t, "the log", checkLog(t, s), "1 to 3 of term 1")
	assert.Equal(t, "the value", string(assert.Must(s.Get([]byte("key")))), "value")
	assert.Error(t, "StoreLogs", s.StoreLogs(entries(4, 4, 1)), brock.ErrReadOnly)
	assert.Error(t, "DeleteRange", s.DeleteRange(1, 1), brock.ErrReadOnly)
	assert.Error(t, "Set", s.Set([]byte("key"), nil), brock.ErrReadOnly)
	assert.Equal(t, "the log", checkLog(t, s), "1 to 3 of term 1")
	assert.OK(t, s.Close())
	// A reader may ask for less than the log promises.
	s, err = OpenStore(o, Options{AllowGaps: true})
	assert.OK(t, err)
	assert.Equal(t, "the log", checkLog(t, s), "1 to 3 of term 1")
	assert.OK(t, s.Close())
}

// TestFollowers: a store that changes under the Store is refused.
func TestFollowers(t *testing.T) {
	dir := t.TempDir()
	s := assert.Must(Open(dir, Options{}))
	defer s.Close()
	_, err := OpenStore(brock.Options{Dir: dir, Mode: brock.Follow}, Options{})
	assert.Error(t, "a follower", err, brock.ErrUnsupported)
}

// TestGroupsApart: groups of one store share nothing, and each is open once.
func TestGroupsApart(t *testing.T) {
	db, err := brock.Open(brock.Options{InMemory: true, Durability: brock.Buffered})
	assert.OK(t, err)
	defer db.Close()
	a := assert.Must(New(db, Options{Group: "a"}))
	b := assert.Must(New(db, Options{Group: "b"}))
	_, err = New(db, Options{Group: "a"})
	assert.Error(t, "a second Store", err, ErrGroupInUse)
	assert.Error(t, "a second Store", err, brock.ErrLocked)
	assert.OK(t, a.StoreLogs(entries(1, 10, 1)))
	assert.OK(t, b.StoreLogs(entries(500, 505, 9)))
	assert.OK(t, a.Set([]byte("k"), []byte("of a")))
	assert.OK(t, a.DeleteRange(0, math.MaxUint64))
	assert.Equal(t, "log of a", checkLog(t, a), "empty")
	assert.Equal(t, "log of b", checkLog(t, b), "500 to 505 of term 9")
	if v, err := b.Get([]byte("k")); v != nil || err != nil {
		t.Errorf("b has %q of a, %v", v, err)
	}
	if a.DB() != db {
		t.Error("the group is of another store")
	}
	assert.OK(t, a.Close())
	assert.OK(t, b.StoreLogs(entries(506, 506, 9))) // the store is still open
	a = assert.Must(New(db, Options{Group: "a"}))
	assert.Equal(t, "value of a", string(assert.Must(a.Get([]byte("k")))), "of a")

	assert.OK(t, a.Drop(t.Context()))
	assert.Error(t, "a dropped group", a.StoreLog(entry(1, 1, 0)), brock.ErrClosed)
	assert.Error(t, "a second Drop", a.Drop(t.Context()), brock.ErrClosed)
	a = assert.Must(New(db, Options{Group: "a"}))
	if v, err := a.Get([]byte("k")); v != nil || err != nil {
		t.Errorf("a dropped group has %q, %v", v, err)
	}
	assert.OK(t, errors.Join(a.Close(), b.Close()))
}

// TestNames: the names of groups, and their bound.
func TestNames(t *testing.T) {
	db := assert.Must(brock.Open(brock.Options{InMemory: true}))
	defer db.Close()
	s, err := New(db, Options{Group: strings.Repeat("n", MaxGroup)})
	assert.OK(t, err)
	assert.OK(t, s.Close())
	_, err = New(db, Options{Group: strings.Repeat("n", MaxGroup+1)})
	assert.Error(t, "a long name", err, brock.ErrInvalid)
	_, err = New(nil, Options{})
	assert.Error(t, "no store", err, brock.ErrInvalid)
	s = assert.Must(New(db, Options{}))
	_, err = New(db, Options{Group: DefaultGroup})
	assert.Error(t, "the default name", err, ErrGroupInUse)
	assert.OK(t, s.Close())
	assert.OK(t, db.Close())
	_, err = New(db, Options{})
	assert.Error(t, "a closed store", err, brock.ErrClosed)
	_, err = New(new(brock.DB), Options{})
	assert.Error(t, "a store that was never opened", err, brock.ErrClosed)
}

// TestClosed: after Close each method returns ErrClosed, whoever has opened the store.
func TestClosed(t *testing.T) {
	db := assert.Must(brock.Open(brock.Options{InMemory: true}))
	defer db.Close()
	for _, s := range []*Store{
		assert.Must(OpenStore(brock.Options{InMemory: true}, Options{})), assert.Must(New(db, Options{})),
	} {
		assert.OK(t, s.StoreLogs(entries(1, 3, 1)))
		assert.OK(t, s.Close())
		for name, err := range map[string]error{
			"FirstIndex":       assert.ErrorOf(s.FirstIndex()),
			"LastIndex":        assert.ErrorOf(s.LastIndex()),
			"GetLog":           s.GetLog(1, new(raft.Log)),
			"StoreLog":         s.StoreLog(entry(4, 1, 0)),
			"StoreLogs":        s.StoreLogs(entries(4, 5, 1)),
			"no StoreLogs":     s.StoreLogs(nil),
			"DeleteRange":      s.DeleteRange(1, 2),
			"Set":              s.Set([]byte("k"), nil),
			"Get":              assert.ErrorOf(s.Get([]byte("k"))),
			"SetUint64":        s.SetUint64([]byte("k"), 1),
			"GetUint64":        assert.ErrorOf(s.GetUint64([]byte("k"))),
			"StageCommitIndex": s.StageCommitIndex(1),
			"GetCommitIndex":   assert.ErrorOf(s.GetCommitIndex()),
			"Drop":             s.Drop(t.Context()),
		} {
			assert.Error(t, name, err, brock.ErrClosed)
		}
		assert.OK(t, s.Close())
	}
}

// TestMisuse: what a caller can't mean is an error, and changes nothing.
func TestMisuse(t *testing.T) {
	s := openMemory(t, Options{})
	assert.OK(t, s.StoreLogs(entries(1, 3, 1)))
	assert.Error(t, "a nil entry", s.StoreLog(nil), brock.ErrInvalid)
	assert.Error(t, "a nil entry behind others", s.StoreLogs([]*raft.Log{entry(4, 1, 0), nil}), brock.ErrInvalid)
	assert.Error(t, "an entry without a place", s.GetLog(1, nil), brock.ErrInvalid)
	assert.Error(t, "a long key", s.Set(make([]byte, brock.MaxKeySize+1), nil), brock.ErrInvalid)
	assert.Error(t, "a key that can't be there", assert.ErrorOf(s.Get(make([]byte, brock.MaxKeySize+1))), brock.ErrInvalid)
	assert.OK(t, s.StoreLogs(nil))
	assert.Equal(t, "the log", checkLog(t, s), "1 to 3 of term 1")
	// The entry that a failed GetLog got is as it was.
	l := raft.Log{Index: 7, Data: []byte("mine")}
	assert.Error(t, "no such entry", s.GetLog(4, &l), raft.ErrLogNotFound)
	if l.Index != 7 || string(l.Data) != "mine" {
		t.Errorf("the entry is %+v", l)
	}
}

// TestBytesBelongToTheirOwner: the store keeps nothing of what it gets, and what it returns can be
// written to.
func TestBytesBelongToTheirOwner(t *testing.T) {
	s := openMemory(t, Options{})
	for _, size := range []int{20, 100, 1000, 100_000} {
		last, _ := s.LastIndex()
		l := entry(last+1, 1, size)
		l.Extensions = bytes.Clone(l.Data)
		assert.OK(t, s.StoreLog(l))
		clear(l.Data)
		clear(l.Extensions)
		for range 2 {
			var back raft.Log
			assert.OK(t, s.GetLog(l.Index, &back))
			if !checkEntry(&back) || !bytes.Equal(back.Data, back.Extensions) {
				t.Fatalf("an entry of %d bytes has changed", size)
			}
			clear(back.Data)
			clear(back.Extensions)
		}
	}
	key, value := []byte("key"), []byte("value")
	assert.OK(t, s.Set(key, value))
	clear(value)
	clear(key)
	for range 2 {
		back := assert.Must(s.Get([]byte("key")))
		assert.Equal(t, "the value", string(back), "value")
		clear(back)
	}
}

// TestStable: keys that were never set, empty values, and numbers.
func TestStable(t *testing.T) {
	for _, missing := range []bool{false, true} {
		s := openMemory(t, Options{MissingKeyError: missing})
		value, err := s.Get([]byte("k"))
		number, err2 := s.GetUint64([]byte("k"))
		if missing {
			if err != ErrKeyNotFound || err2 != ErrKeyNotFound || err.Error() != "not found" {
				t.Errorf("a missing key: %v, %v", err, err2)
			}
		} else if err != nil || value != nil || err2 != nil || number != 0 {
			t.Errorf("a missing key: %q %v, %d %v", value, err, number, err2)
		}
		assert.OK(t, s.Set([]byte("k"), []byte("v1")))
		assert.OK(t, s.Set([]byte("k"), []byte("v2")))
		assert.Equal(t, "value", string(assert.Must(s.Get([]byte("k")))), "v2")
		assert.Error(t, "a value that is no number", assert.ErrorOf(s.GetUint64([]byte("k"))), ErrNotUint64)
		assert.OK(t, s.SetUint64([]byte("k"), math.MaxUint64))
		assert.Equal(t, "number", assert.Must(s.GetUint64([]byte("k"))), math.MaxUint64)
		assert.OK(t, s.Set([]byte("empty"), nil))
		if value, err := s.Get([]byte("empty")); value == nil || len(value) != 0 || err != nil {
			t.Errorf("an empty value: %v, %v", value, err)
		}
		assert.OK(t, s.Set(nil, []byte("of no key")))
		assert.Equal(t, "of no key", string(assert.Must(s.Get([]byte{}))), "of no key")
	}
}

// TestInterfaces: raft finds the optional interfaces, also behind its cache, which hides one.
func TestInterfaces(t *testing.T) {
	for _, gaps := range []bool{false, true} {
		s := openMemory(t, Options{AllowGaps: gaps})
		assert.Equal(t, "IsMonotonic", s.IsMonotonic(), !gaps)
		cache, err := raft.NewLogCache(16, s)
		assert.OK(t, err)
		assert.Equal(t, "IsMonotonic of the cache", cache.IsMonotonic(), !gaps)
		// The README says so. If raft's cache hands it on one day, that line goes.
		if _, tracks := any(cache).(raft.CommitTrackingLogStore); tracks {
			t.Error("raft's LogCache now tracks commits")
		}
	}
}

// TestForeignData: what is no group, or is damaged in a way that no checksum finds, is a typed error.
func TestForeignData(t *testing.T) {
	put := func(t *testing.T, db *brock.DB, keyspace string, key, value []byte) {
		ks, err := db.Keyspace(keyspace)
		assert.OK(t, err)
		assert.OK(t, ks.Set(key, value))
	}
	for _, c := range []struct {
		name       string
		key, value []byte
		is         error
	}{
		{"a newer header", nil, []byte{2, 0}, brock.ErrFormat},
		{"a header of another program", nil, []byte("hello"), brock.ErrFormat},
		{"an empty header", nil, nil, brock.ErrCorrupt},
		{"an unknown flag", nil, []byte{1, 0x80}, brock.ErrCorrupt},
		{"no header", appendKey(nil, 1), []byte("x"), brock.ErrCorrupt},
		{"a key that is no index", []byte("abcdefghi"), []byte("x"), brock.ErrCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := assert.Must(brock.Open(brock.Options{InMemory: true}))
			defer db.Close()
			put(t, db, "raft/log", c.key, c.value)
			_, err := New(db, Options{})
			var refused *RecordError
			if !errors.Is(err, c.is) || !errors.As(err, &refused) || refused.Group != "raft" {
				t.Fatalf("New returned %v", err)
			}
			// It is as free as before.
			_, err = New(db, Options{})
			assert.Error(t, "New again", err, c.is)
		})
	}

	db := assert.Must(brock.Open(brock.Options{InMemory: true}))
	defer db.Close()
	s := assert.Must(New(db, Options{}))
	assert.OK(t, s.StoreLogs(entries(1, 9, 1)))
	put(t, db, "raft/log", appendKey(nil, 4), []byte{9, 0, 0, 1, 0})
	put(t, db, "raft/log", appendKey(nil, 5), []byte("garbage"))
	put(t, db, "raft/log", appendKey(nil, 9), nil)
	ks := assert.Must(db.Keyspace("raft/log"))
	assert.OK(t, ks.Delete(appendKey(nil, 6)))
	for index, is := range map[uint64]error{4: brock.ErrFormat, 5: brock.ErrFormat, 6: brock.ErrCorrupt, 9: brock.ErrCorrupt} {
		err := s.GetLog(index, new(raft.Log))
		var refused *RecordError
		if !errors.Is(err, is) || !errors.As(err, &refused) || refused.Index != index || refused.Group != "raft" {
			t.Errorf("entry %d: %v", index, err)
		}
	}
	assert.Error(t, "the last commit index", assert.ErrorOf(s.GetCommitIndex()), brock.ErrCorrupt)
	assert.OK(t, s.Close())
	_, err := New(db, Options{})
	assert.Error(t, "a log whose last entry is damaged", err, brock.ErrCorrupt)
}

// TestTogether: one appends, as raft does, one deletes the head, and many read. What was appended and
// not deleted is there, whole.
func TestTogether(t *testing.T) {
	s := openMemory(t, Options{})
	const last = 6000
	var wait sync.WaitGroup
	done := make(chan struct{})
	wait.Go(func() {
		defer close(done)
		for index := uint64(1); index <= last; {
			n := min(index%7+1, last-index+1)
			if err := s.StoreLogs(entries(index, index+n-1, 1)); err != nil {
				t.Error(err)
				return
			}
			index += n
			if index%97 < 3 { // the tail is written again
				if err := s.DeleteRange(index-1, index-1); err != nil {
					t.Error(err)
					return
				}
				if err := s.StoreLogs(entries(index-1, index-1, 2)); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	wait.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(200 * time.Microsecond):
			}
			if end, _ := s.LastIndex(); end > 300 {
				if err := s.DeleteRange(0, end-200); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	for range 4 {
		wait.Go(func() {
			found := 0
			for running := true; running || found == 0; {
				select {
				case <-done:
					running = false
				default:
				}
				first, _ := s.FirstIndex()
				end, _ := s.LastIndex()
				for _, index := range []uint64{first, (first + end) / 2, end, end + 1} {
					var l raft.Log
					switch err := s.GetLog(index, &l); {
					case err == raft.ErrLogNotFound:
					case err != nil:
						t.Errorf("entry %d of %d to %d: %v", index, first, end, err)
						return
					case l.Index != index || !checkEntry(&l):
						t.Errorf("entry %d is not whole", index)
						return
					default:
						found++
					}
				}
				if _, err := s.GetCommitIndex(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	if end, _ := s.LastIndex(); end != last {
		t.Errorf("the log ends at %d", end)
	}
	checkLog(t, s)
}

// TestCloseBesideOthers: a call that Close meets either has happened or returns ErrClosed, and the
// next Store of the group sees which.
func TestCloseBesideOthers(t *testing.T) {
	db := assert.Must(brock.Open(brock.Options{InMemory: true}))
	defer db.Close()
	stored := uint64(0)
	for range 50 {
		s := assert.Must(New(db, Options{}))
		var wait sync.WaitGroup
		begun := make(chan struct{})
		wait.Go(func() {
			for {
				err := s.StoreLog(entry(stored+1, 1, 0))
				if errors.Is(err, brock.ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				if stored++; stored%3 == 1 {
					select {
					case begun <- struct{}{}:
					default:
					}
				}
			}
		})
		wait.Go(func() {
			for {
				end, err := s.LastIndex()
				if err == nil {
					err = s.GetLog(end, new(raft.Log))
				}
				if errors.Is(err, brock.ErrClosed) {
					return
				}
				if err != nil && err != raft.ErrLogNotFound {
					t.Error(err)
					return
				}
			}
		})
		<-begun
		assert.OK(t, s.Close())
		wait.Wait()
		s = assert.Must(New(db, Options{}))
		assert.Equal(t, "the log", checkLog(t, s), fmt.Sprintf("1 to %d of term 1", stored))
		assert.OK(t, s.Close())
	}
}
