package metamorphic

import (
	"bytes"
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
)

// A store neither reads nor removes files that it has not written, whatever their
// names. Its own files under wrong names may be removed, but are never read.
func TestStrangers(t *testing.T) {
	other := newVictim(t, false)
	home := newVictim(t, false)
	strangers := map[string][]byte{
		"notes.txt": []byte("buy milk"), "000099.bak": []byte("x"), "1.run": []byte("x"), "000000099.log": []byte("x"),
		"000099.run": []byte("not a run"), "000098.val": bytes.Repeat([]byte("not values "), 1000),
		"000097.log": []byte("not a journal"), "000096.map": []byte("not a map"), "MANIFEST-000095": []byte("not a manifest"),
	}
	foreign := map[string][]byte{} // files of another store
	copies := map[string][]byte{}  // the store's own under other names
	for _, name := range other.files {
		if name == "SUPER" {
			continue
		}
		foreign[rename(name, "90")] = content(t, other.mem, name)
		copies[rename(name, "80")] = content(t, home.mem, name)
	}
	for name, files := range map[string]map[string][]byte{"strangers": strangers, "foreign": foreign, "copies": copies} {
		t.Run(name, func(t *testing.T) {
			for file, p := range files {
				m := home.mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
				replace(t, m, file, p)
				o := home.o
				o.FS = m
				db, err := brock.Open(o)
				if err != nil {
					if name == "foreign" && errors.Is(err, brock.ErrForeign) {
						continue // Open refuses the directory and changes nothing
					}
					t.Errorf("with %s: open: %v", file, err)
					continue
				}
				got, err := dump(db)
				must(t, "read", err)
				pr := home.ledger.promise()
				if d := differ(got, home.ledger.state(pr.acked, pr.now)); d != "" {
					t.Errorf("with %s: %s", file, d)
				}
				must(t, "set", db.Set([]byte("a"), bytes.Repeat([]byte("b"), 2000)))
				must(t, "compact", db.Compact(t.Context()))
				must(t, "verify", db.Verify(t.Context(), nil))
				must(t, "close", db.Close())
				if name == "copies" {
					continue
				}
				if _, err := m.Stat(path.Join("db", file)); err != nil {
					t.Errorf("%s is gone: %v", file, err)
				} else if !bytes.Equal(content(t, m, file), p) {
					t.Errorf("%s was changed", file)
				}
			}
		})
	}
}

// rename gives a file of a store a number that begins with other digits.
func rename(name, digits string) string {
	if number, isManifest := strings.CutPrefix(name, "MANIFEST-"); isManifest {
		return "MANIFEST-00" + digits + number[4:]
	}
	return "00" + digits + name[4:]
}
