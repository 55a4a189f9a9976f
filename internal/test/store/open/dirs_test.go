package open

import (
	"bytes"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

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
			assert.OK(t, l.db.Set(fmt.Appendf(nil, "key %d", i), l.value(i)))
		}
		assert.OK(t, l.db.Flush(t.Context()))
		_, err := l.db.Reclaim(t.Context())
		assert.OK(t, err)
	}
}

func (l *line) check(t *testing.T, what string) {
	t.Helper()
	for i := range lineKeys {
		v, err := l.db.Get(fmt.Appendf(nil, "key %d", i))
		assert.OK(t, err)
		if !bytes.Equal(v, l.value(i)) {
			t.Fatalf("%s: key %d is %.20q, want %.20q", what, i, v, l.value(i))
		}
	}
	assert.OK(t, l.db.Verify(t.Context(), nil))
}

// TestRenamedDirectories renames the directories of an open store and makes another
// store at the old names. Both go on with files of their own.
func TestRenamedDirectories(t *testing.T) {
	t.Parallel()
	storetest.OnEach(t, func(t *testing.T, p storetest.Place) {
		open := func(name string, l *line) {
			t.Helper()
			var err error
			l.db, err = brock.Open(p.TinyOptions(name, name+".values"))
			assert.OK(t, err)
		}
		var first, second line
		open("a", &first)
		first.work(t, 2)
		assert.OK(t, p.Rename(p.Join("a"), p.Join("old")))
		first.work(t, 2) // nothing has taken its place
		assert.OK(t, p.Rename(p.Join("a.values"), p.Join("old.values")))
		open("a", &second)
		second.round = 100
		for range 3 {
			first.work(t, 2)
			second.work(t, 2)
		}
		first.check(t, "first, renamed")
		second.check(t, "second")
		assert.OK(t, first.db.Close())
		second.work(t, 1)
		assert.OK(t, second.db.Close())

		open("old", &first)
		first.check(t, "first, opened again")
		assert.OK(t, first.db.Close())
		open("a", &second)
		second.check(t, "second, opened again")
		assert.OK(t, second.db.Close())
	})
}

// TestValueDirBelongsToOneStore gives the value directory of one store to others.
func TestValueDirBelongsToOneStore(t *testing.T) {
	t.Parallel()
	storetest.OnEach(t, func(t *testing.T, p storetest.Place) {
		var l line
		open := func() {
			var err error
			l.db, err = brock.Open(p.TinyOptions("a", "values"))
			assert.OK(t, err)
		}
		open()
		_, err := brock.Open(p.TinyOptions("b", "values"))
		assert.Error(t, "a second new store, the first one open", err, brock.ErrForeign)
		l.work(t, 2)
		assert.OK(t, l.db.Close())
		other, err := brock.Open(p.TinyOptions("c", "c.values"))
		assert.OK(t, err)
		storetest.Set(t, other, "k=v")
		assert.OK(t, other.Close())

		all := []string{"a", "b", "c", "d", "values", "c.values"}
		before := p.ShowFiles(t, all...)
		for _, dir := range []string{"values", "a", "c.values"} {
			_, err = brock.Open(brock.Options{Dir: p.Join("d"), ValueDir: p.Join(dir), FS: p.FS})
			assert.Error(t, "a new store over "+dir, err, brock.ErrForeign)
		}
		_, err = brock.Open(brock.Options{Dir: p.Join("values"), FS: p.FS})
		assert.Error(t, "the value directory as a store", err, brock.ErrForeign)
		if after := p.ShowFiles(t, all...); after != before {
			t.Fatalf("from\n%s\nto\n%s", before, after)
		}
		p.CheckRefused(t, "the values of another store", p.TinyOptions("a", "c.values"), brock.ErrForeign, all...)
		p.CheckRefused(t, "another store's directory", p.TinyOptions("a", "c"), brock.ErrForeign, all...)
		p.CheckRefused(t, "without its values", p.TinyOptions("a", ""), brock.ErrInvalid, all...)
		assert.OK(t, p.FS.MkdirAll(p.Join("empty")))
		p.CheckRefused(t, "a disk that is not mounted", p.TinyOptions("a", "empty"), brock.ErrCorrupt, append(all, "empty")...)
		p.CheckRefused(t, "a directory that is not there", p.TinyOptions("a", "none"), fs.ErrNotExist, append(all, "none")...)
		plain, err := brock.Open(p.TinyOptions("plain", ""))
		assert.OK(t, err)
		storetest.Set(t, plain, "k=v")
		assert.OK(t, plain.Close())
		p.CheckRefused(t, "values that never were elsewhere", p.TinyOptions("plain", "empty"), brock.ErrInvalid, "plain", "empty")
		open()
		l.check(t, "the store")
		assert.OK(t, l.db.Close())
	})
}

// TestDirectoriesInEachOther makes stores of which one directory lies in the other one, by
// Open and by Restore.
func TestDirectoriesInEachOther(t *testing.T) {
	t.Parallel()
	storetest.OnEach(t, func(t *testing.T, p storetest.Place) {
		for _, dirs := range [][2]string{{"a", "a/values"}, {"b/far/store", "b"}, {"c", "c/far/values"}} {
			var l line
			o := p.TinyOptions(dirs[0], dirs[1])
			for range 2 {
				var err error
				l.db, err = brock.Open(o)
				assert.OK(t, err)
				l.work(t, 2)
				assert.OK(t, l.db.Close())
			}
			var err error
			l.db, err = brock.Open(o)
			assert.OK(t, err)
			full, _ := storetest.MakeBackup(t, l.db, brock.BackupOptions{})
			assert.OK(t, l.db.Close())
			o.Dir, o.ValueDir = filepath.Join(p.Join("new"), dirs[0]), filepath.Join(p.Join("new"), dirs[1])
			_, err = brock.Restore(t.Context(), bytes.NewReader(full), o)
			assert.OK(t, err)
			l.db, err = brock.Open(o)
			assert.OK(t, err)
			l.check(t, dirs[0])
			assert.OK(t, l.db.Close())
		}
		// What isn't on the way to the values is still another program's.
		assert.OK(t, p.FS.MkdirAll(p.Join("d/other")))
		_, err := brock.Open(p.TinyOptions("d", "d/values"))
		assert.Error(t, "a directory in use", err, brock.ErrForeign)
		names, err := p.FS.List(p.Join("d"))
		assert.OK(t, err)
		assert.Equal(t, "names in a directory in use", fmt.Sprint(names), "[other]")
	})
}

// TestCopiesOfADirectory opens a copy of a store's directory beside the same value
// directory. The copy that was opened last goes on, and any other is refused.
func TestCopiesOfADirectory(t *testing.T) {
	t.Parallel()
	storetest.OnEach(t, func(t *testing.T, p storetest.Place) {
		var l line
		open := func(dir string) {
			t.Helper()
			var err error
			l.db, err = brock.Open(p.TinyOptions(dir, "values"))
			assert.OK(t, err)
		}
		all := []string{"a", "backup", "values"}
		open("a")
		l.work(t, 1)
		assert.OK(t, l.db.Close())
		p.CopyDir(t, "a", "backup")
		open("a")
		_, err := brock.Open(p.TinyOptions("backup", "values"))
		assert.Error(t, "a copy, the store open", err, brock.ErrLocked)
		l.work(t, 2)
		assert.OK(t, l.db.Close())
		p.CheckRefused(t, "an old copy", p.TinyOptions("backup", "values"), brock.ErrForeign, all...)
		open("a")
		l.check(t, "the store")
		assert.OK(t, l.db.Close())

		// A copy that takes over is the store from then on.
		p.CopyDir(t, "a", "copy")
		open("copy")
		l.work(t, 1)
		assert.OK(t, l.db.Close())
		p.CheckRefused(t, "the original, which was left behind", p.TinyOptions("a", "values"), brock.ErrForeign, append(all, "copy")...)
		open("copy")
		l.check(t, "the copy")
		assert.OK(t, l.db.Close())

		// Copies of both directories are a store of their own.
		p.CopyDir(t, "copy", "whole")
		p.CopyDir(t, "values", "whole.values")
		second, err := brock.Open(p.TinyOptions("whole", "whole.values"))
		assert.OK(t, err)
		defer second.Close()
		open("copy")
		l.work(t, 1)
		assert.OK(t, l.db.Close())
		assert.OK(t, second.Verify(t.Context(), nil))
	})
}
