package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/vfs"
)

// place is a file system with an empty directory, whose directories can be renamed.
type place struct {
	fs     vfs.FS
	dir    string
	rename func(from, to string) error
}

func (p place) in(base string) string { return filepath.Join(p.dir, base) }

// onEach runs a test in memory and on the disk; with -short in one of the two, which is drawn.
func onEach(t *testing.T, test func(t *testing.T, p place)) {
	drawn := int(draw.Seed(t) % 2)
	for i, name := range []string{"mem", "os"} {
		if testing.Short() && i != drawn {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if name == "os" {
				test(t, place{vfs.OS(), t.TempDir(), os.Rename})
				return
			}
			mem := vfs.NewMem()
			test(t, place{mem, "/", mem.Rename})
		})
	}
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

// work writes all keys, and has files written, collected and removed.
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

// copyDir copies the files of a directory into another one, which it makes.
func (p place) copyDir(t *testing.T, from, to string) {
	t.Helper()
	names, err := p.fs.List(p.in(from))
	must(t, err)
	must(t, p.fs.MkdirAll(p.in(to)))
	for _, name := range names {
		writeFile(t, p.fs, p.in(filepath.Join(to, name)), string(readFile(t, p.fs, p.in(filepath.Join(from, name)))))
	}
}

// contents is the names of the files in directories, and their bytes. It leaves out an
// empty LOCK.
func (p place) contents(t *testing.T, dirs ...string) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range dirs {
		names, err := p.fs.List(p.in(dir))
		if errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(&all, "no %s\n", dir)
			continue
		}
		must(t, err)
		for _, name := range names {
			content := readFile(t, p.fs, p.in(filepath.Join(dir, name)))
			if name == "LOCK" && len(content) == 0 {
				continue // a refused Open may make one
			}
			fmt.Fprintf(&all, "%s/%s %d bytes %08x\n", dir, name, len(content), checksum.Plain(content))
		}
	}
	return all.String()
}

// refused opens a store and wants an error, and nothing else.
func (p place) refused(t *testing.T, what string, o brock.Options, want error, dirs ...string) {
	t.Helper()
	for _, mode := range []brock.OpenMode{brock.ReadWrite, brock.ReadOnly} {
		before := p.contents(t, dirs...)
		o.Mode = mode
		db, err := brock.Open(o)
		if err == nil {
			must(t, db.Close())
		}
		wantErr(t, fmt.Sprintf("%s, mode %d", what, mode), err, want)
		if want != brock.ErrKey && errors.Is(err, brock.ErrKey) {
			t.Errorf("%s, mode %d: %v asks for other keys", what, mode, err)
		}
		if after := p.contents(t, dirs...); after != before {
			t.Fatalf("%s, mode %d: from\n%s\nto\n%s", what, mode, before, after)
		}
	}
}

// TestValueDirBelongsToOneStore gives the value directory of one store to others.
func TestValueDirBelongsToOneStore(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		var l line
		open := func() {
			var err error
			l.db, err = brock.Open(p.tiny("a", "values"))
			must(t, err)
		}
		open()
		_, err := brock.Open(p.tiny("b", "values"))
		wantErr(t, "a second new store, the first one open", err, brock.ErrForeign)
		l.work(t, 2)
		must(t, l.db.Close())
		other, err := brock.Open(p.tiny("c", "c.values"))
		must(t, err)
		set(t, other, "k=v")
		must(t, other.Close())

		all := []string{"a", "b", "c", "d", "values", "c.values"}
		before := p.contents(t, all...)
		for _, dir := range []string{"values", "a", "c.values"} {
			_, err = brock.Open(brock.Options{Dir: p.in("d"), ValueDir: p.in(dir), FS: p.fs})
			wantErr(t, "a new store over "+dir, err, brock.ErrForeign)
		}
		_, err = brock.Open(brock.Options{Dir: p.in("values"), FS: p.fs})
		wantErr(t, "the value directory as a store", err, brock.ErrForeign)
		if after := p.contents(t, all...); after != before {
			t.Fatalf("from\n%s\nto\n%s", before, after)
		}
		p.refused(t, "the values of another store", p.tiny("a", "c.values"), brock.ErrForeign, all...)
		p.refused(t, "another store's directory", p.tiny("a", "c"), brock.ErrForeign, all...)
		p.refused(t, "without its values", p.tiny("a", ""), brock.ErrInvalid, all...)
		must(t, p.fs.MkdirAll(p.in("empty")))
		p.refused(t, "a disk that is not mounted", p.tiny("a", "empty"), brock.ErrCorrupt, append(all, "empty")...)
		p.refused(t, "a directory that is not there", p.tiny("a", "none"), fs.ErrNotExist, append(all, "none")...)
		plain, err := brock.Open(p.tiny("plain", ""))
		must(t, err)
		set(t, plain, "k=v")
		must(t, plain.Close())
		p.refused(t, "values that never were elsewhere", p.tiny("plain", "empty"), brock.ErrInvalid, "plain", "empty")
		open()
		l.check(t, "the store")
		must(t, l.db.Close())
	})
}

// TestDirectoriesInEachOther makes stores of which one directory lies in the other one, by
// Open and by Restore.
func TestDirectoriesInEachOther(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		for _, dirs := range [][2]string{{"a", "a/values"}, {"b/far/store", "b"}, {"c", "c/far/values"}} {
			var l line
			o := p.tiny(dirs[0], dirs[1])
			for range 2 {
				var err error
				l.db, err = brock.Open(o)
				must(t, err)
				l.work(t, 2)
				must(t, l.db.Close())
			}
			var err error
			l.db, err = brock.Open(o)
			must(t, err)
			full, _ := backedUp(t, l.db, brock.BackupOptions{})
			must(t, l.db.Close())
			o.Dir, o.ValueDir = filepath.Join(p.in("new"), dirs[0]), filepath.Join(p.in("new"), dirs[1])
			_, err = brock.Restore(t.Context(), bytes.NewReader(full), o)
			must(t, err)
			l.db, err = brock.Open(o)
			must(t, err)
			l.check(t, dirs[0])
			must(t, l.db.Close())
		}
		// What isn't on the way to the values is still another program's.
		must(t, p.fs.MkdirAll(p.in("d/other")))
		_, err := brock.Open(p.tiny("d", "d/values"))
		wantErr(t, "a directory in use", err, brock.ErrForeign)
		names, err := p.fs.List(p.in("d"))
		must(t, err)
		wantEqual(t, "names in a directory in use", fmt.Sprint(names), "[other]")
	})
}

// TestCopiesOfADirectory opens a copy of a store's directory beside the same value
// directory. The copy that was opened last goes on, and any other is refused.
func TestCopiesOfADirectory(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		var l line
		open := func(dir string) {
			t.Helper()
			var err error
			l.db, err = brock.Open(p.tiny(dir, "values"))
			must(t, err)
		}
		all := []string{"a", "backup", "values"}
		open("a")
		l.work(t, 1)
		must(t, l.db.Close())
		p.copyDir(t, "a", "backup")
		open("a")
		_, err := brock.Open(p.tiny("backup", "values"))
		wantErr(t, "a copy, the store open", err, brock.ErrLocked)
		l.work(t, 2)
		must(t, l.db.Close())
		p.refused(t, "an old copy", p.tiny("backup", "values"), brock.ErrForeign, all...)
		open("a")
		l.check(t, "the store")
		must(t, l.db.Close())

		// A copy that takes over is the store from then on.
		p.copyDir(t, "a", "copy")
		open("copy")
		l.work(t, 1)
		must(t, l.db.Close())
		p.refused(t, "the original, which was left behind", p.tiny("a", "values"), brock.ErrForeign, append(all, "copy")...)
		open("copy")
		l.check(t, "the copy")
		must(t, l.db.Close())

		// Copies of both directories are a store of their own.
		p.copyDir(t, "copy", "whole")
		p.copyDir(t, "values", "whole.values")
		second, err := brock.Open(p.tiny("whole", "whole.values"))
		must(t, err)
		defer second.Close()
		open("copy")
		l.work(t, 1)
		must(t, l.db.Close())
		must(t, second.Verify(t.Context(), nil))
	})
}
