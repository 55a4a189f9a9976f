package compat

import (
	"flag"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/brockdb/brock"
)

const fixtures = "../../../testdata/compat"

var write = flag.String("write", "", "write the fixture of this release, such as v0.1.0, to testdata/compat")

// TestFixtures opens the stores of all releases, and those of this source.
func TestFixtures(t *testing.T) {
	if *write != "" {
		dir := filepath.Join(fixtures, *write)
		must(t, os.MkdirAll(filepath.Dir(dir), 0o755))
		must(t, os.Mkdir(dir, 0o755)) // a release's fixture never changes
		writeFixture(t, dir)
	}
	releases, err := filepath.Glob(filepath.Join(fixtures, "v*"))
	must(t, err)
	for _, dir := range releases {
		t.Run(filepath.Base(dir), func(t *testing.T) { openFixture(t, dir) })
	}
	t.Run("unreleased", func(t *testing.T) {
		dir := t.TempDir()
		writeFixture(t, dir)
		openFixture(t, dir)
	})
}

func openFixture(t *testing.T, dir string) {
	for _, name := range stores {
		t.Run(name, func(t *testing.T) {
			want, err := os.ReadFile(filepath.Join(dir, name+".txt"))
			must(t, err)
			store := filepath.Join(t.TempDir(), "store")
			must(t, os.CopyFS(store, os.DirFS(filepath.Join(dir, name))))
			if position, err := os.ReadFile(filepath.Join(dir, name+".position")); err == nil {
				must(t, os.WriteFile(store+".position", position, 0o600))
			}
			openCopy(t, store, string(want))
		})
	}
}

// openCopy reads the store, recovers it, writes to it and rewrites all of it.
func openCopy(t *testing.T, store, want string) {
	_, err := os.Stat(store + ".position")
	encrypted := err == nil
	o := options(store, encrypted)
	list := func(t *testing.T, db *brock.DB) string {
		text := list(t, db)
		if encrypted {
			text += listFeed(t, db, store)
		}
		return text
	}
	o.MustExist, o.Mode = true, brock.ReadOnly
	db, err := brock.Open(o)
	must(t, err)
	compare(t, "read-only", list(t, db), want)
	must(t, db.Verify(t.Context(), nil))
	must(t, db.Close())

	o.Mode = brock.ReadWrite
	for _, life := range []string{"recovered", "after it was closed"} {
		db, err = brock.Open(o)
		must(t, err)
		compare(t, life, list(t, db), want)
		must(t, db.Verify(t.Context(), nil))
		must(t, db.Close())
	}

	db, err = brock.Open(o)
	must(t, err)
	defer db.Close()
	must(t, db.Set([]byte("zz new"), []byte("of a later release")))
	must(t, db.Delete([]byte("zz new")))
	must(t, db.Compact(t.Context()))
	_, err = db.Reclaim(t.Context())
	must(t, err)
	compare(t, "rewritten", list(t, db), want)
	must(t, db.Verify(t.Context(), nil))
}

func compare(t *testing.T, when, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range w {
		if i >= len(g) || g[i] != w[i] {
			t.Errorf("%s: line %d of the listing: want\n%s\ngot\n%s", when, i+1, w[i], strings.Join(g[min(i, len(g)):min(i+1, len(g))], ""))
			return
		}
	}
	t.Errorf("%s: %d lines more than the %d of the listing, from\n%s", when, len(g)-len(w), len(w), g[len(w)])
}

// list is everything that can be read, a line each: keyspaces with their
// options, keys with all that is kept of them. What a later release may drop is
// left out: versions beyond those that are retained.
func list(t *testing.T, db *brock.DB) string {
	t.Helper()
	var b strings.Builder
	must(t, db.View(func(txn *brock.Txn) error {
		if err := listKeys(&b, txn, 1); err != nil {
			return err
		}
		for ks := range db.Keyspaces() {
			o := ks.Options()
			fmt.Fprintf(&b, "keyspace %q threshold %d ttl %v versions %d age %v manual %v compression %d above %d\n",
				ks.Name(), o.ValueThreshold, o.TTL, o.Versions.Versions, o.Versions.Age, o.Versions.Manual, o.Compression, o.CompressAbove)
			versions := o.Versions.Versions
			if o.Versions.Manual {
				versions = math.MaxInt
			}
			if err := listKeys(&b, txn.In(ks), versions); err != nil {
				return err
			}
		}
		return nil
	}))
	return b.String()
}

// listFeed lists the history that is kept for Watch, without what openCopy has committed.
func listFeed(t *testing.T, db *brock.DB, store string) string {
	t.Helper()
	position, err := os.ReadFile(store + ".position")
	must(t, err)
	after, err := brock.ParsePosition(string(position))
	must(t, err)
	var b strings.Builder
	for c, err := range db.Watch(t.Context(), brock.WatchOptions{After: after}) {
		must(t, err)
		for change, err := range c.Changes() {
			must(t, err)
			if string(change.Key) == "zz new" {
				continue
			}
			var v []byte
			if change.Kind == brock.ChangeSet {
				v, err = change.Value()
				must(t, err)
			}
			fmt.Fprintf(&b, "commit %d: %v %q %s to %q meta %d value %s\n", c.Version, change.Kind, change.Keyspace, text(change.Key), change.Upper, change.Meta, text(v))
		}
		if c.Caught {
			break
		}
	}
	return b.String()
}

// listKeys lists a keyspace: the newest versions of each key, at most that many, back to
// its last delete; all versions and deletes for math.MaxInt. What an iterator shows, Get must find too.
func listKeys(b *strings.Builder, txn *brock.Txn, versions int) error {
	last, left := "", 0
	for item, err := range txn.Items(brock.IteratorOptions{AllVersions: versions > 1}) {
		if err != nil {
			return err
		}
		newest := string(item.Key()) != last
		if newest {
			last, left = string(item.Key()), versions
		}
		if versions == math.MaxInt && item.Version() < discarded {
			continue // it may be gone
		}
		if item.Deleted() && versions == math.MaxInt {
			fmt.Fprintf(b, "%s version %d deleted\n", text(item.Key()), item.Version())
			continue
		}
		if item.Deleted() {
			left = 0
		}
		if left == 0 {
			continue
		}
		left--
		v, err := item.Value()
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "%s version %d meta %d", text(item.Key()), item.Version(), item.Meta())
		if at := item.ExpiresAt(); !at.IsZero() {
			fmt.Fprintf(b, " expires %s", at.UTC().Format("2006-01-02T15:04:05.000"))
		}
		if item.OnlyLatest() {
			b.WriteString(" only latest")
		}
		fmt.Fprintf(b, " value %s\n", text(v))
		if !newest {
			continue
		}
		found, err := txn.Get(item.Key())
		if err != nil {
			return fmt.Errorf("get %q, which an iterator has found: %w", item.Key(), err)
		}
		if w, err := found.ValueCopy(nil); err != nil || string(w) != string(v) {
			return fmt.Errorf("get %q: other than by an iterator, %w", item.Key(), err)
		}
	}
	return nil
}

// text is b as it is or, if it is long or not text, its length, its begin and a
// checksum.
func text(b []byte) string {
	if len(b) <= 60 && utf8.Valid(b) {
		return fmt.Sprintf("%q", b)
	}
	return fmt.Sprintf("%d bytes %q… crc %08x", len(b), b[:min(8, len(b))], crc32.ChecksumIEEE(b))
}
