package storetest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
)

// place is a file system with an empty directory, whose directories can be renamed.
type place struct {
	fs     vfs.FS
	dir    string
	rename func(from, to string) error
}

func (p place) in(base string) string { return filepath.Join(p.dir, base) }

// onEach runs a test in memory and on the disk.
func onEach(t *testing.T, test func(t *testing.T, p place)) {
	t.Run("mem", func(t *testing.T) {
		mem := vfs.NewMem()
		test(t, place{mem, "/", mem.Rename})
	})
	t.Run("os", func(t *testing.T) { test(t, place{vfs.OS(), t.TempDir(), os.Rename}) })
}

// tiny makes a store that begins a new file often, in p/name, with its values in
// p/values.
func (p place) tiny(name, values string) brock.Options {
	o := brock.Options{Dir: p.in(name), FS: p.fs, Durability: brock.Buffered}
	o.Tuning = brock.Tuning{MemtableSize: 64 << 10, SegmentSize: 64 << 10, RunFileSize: 64 << 10}
	if values != "" {
		o.ValueDir = p.in(values)
	}
	return o
}

const lineKeys = 100

// line is a store that is filled again and again: all values are of one round.
type line struct {
	db    *brock.DB
	round int
}

func (l *line) value(i int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%d.%d ", l.round, i), 80+i%3*50)
}

// work writes all keys, and has files written, recycled, collected and removed.
func (l *line) work(t *testing.T, rounds int) {
	t.Helper()
	for range rounds {
		l.round++
		for i := range lineKeys {
			must(t, l.db.Set(fmt.Appendf(nil, "key %d", i), l.value(i)))
		}
		must(t, l.db.Flush(t.Context()))
		_, err := l.db.Reclaim(t.Context())
		must(t, err)
	}
}

func (l *line) check(t *testing.T, what string) {
	t.Helper()
	for i := range lineKeys {
		v, err := l.db.Get(fmt.Appendf(nil, "key %d", i))
		must(t, err)
		if !bytes.Equal(v, l.value(i)) {
			t.Fatalf("%s: key %d is %.20q, want %.20q", what, i, v, l.value(i))
		}
	}
	must(t, l.db.Verify(t.Context(), nil))
}

// TestRenamedDirectories renames the directories of an open store and makes another
// store at the old names. Both go on with files of their own.
func TestRenamedDirectories(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		open := func(name string, l *line) {
			t.Helper()
			var err error
			l.db, err = brock.Open(p.tiny(name, name+".values"))
			must(t, err)
		}
		var first, second line
		open("a", &first)
		first.work(t, 2)
		must(t, p.rename(p.in("a"), p.in("old")))
		first.work(t, 2) // nothing has taken its place
		must(t, p.rename(p.in("a.values"), p.in("old.values")))
		open("a", &second)
		second.round = 100
		for range 3 {
			first.work(t, 2)
			second.work(t, 2)
		}
		first.check(t, "first, renamed")
		second.check(t, "second")
		must(t, first.db.Close())
		second.work(t, 1)
		must(t, second.db.Close())

		open("old", &first)
		first.check(t, "first, opened again")
		must(t, first.db.Close())
		open("a", &second)
		second.check(t, "second, opened again")
		must(t, second.db.Close())
	})
}

// TestRemovedLock removes the lock file of an open store: nobody else gets in.
func TestRemovedLock(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		db, err := brock.Open(p.tiny("a", ""))
		must(t, err)
		defer db.Close()
		if err := p.fs.Remove(p.in("a/LOCK")); err != nil {
			t.Skip("a locked file can't be removed here:", err)
		}
		for _, mode := range []brock.OpenMode{brock.ReadWrite, brock.ReadOnly} {
			o := p.tiny("a", "")
			o.Mode = mode
			_, err := brock.Open(o)
			wantErr(t, "a second open", err, brock.ErrLocked)
		}
	})
}
