package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
)

// TestBackupOfGuide runs the commands of docs/guide.md, and looks at what the
// guide says a backup and a dump have.
func TestBackupOfGuide(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guide.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^ {4,}brock (.+)$`).FindAllStringSubmatch(string(guide), -1)
	if len(commands) < 7 {
		t.Fatalf("the guide has %d commands, want a backup with all that follows, a dump and a load", len(commands))
	}
	dir := t.TempDir()
	expires := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	db, err := brock.Open(brock.Options{Dir: filepath.Join(dir, "store")})
	if err != nil {
		t.Fatal(err)
	}
	users, err := db.Keyspace("users")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []*brock.Entry{
		brock.NewEntry([]byte("\xff\x00"), []byte("bytes")),
		brock.NewEntry([]byte("17"), []byte("ann")).WithMeta(7).WithExpiry(expires),
		brock.NewEntry([]byte("18"), make([]byte, 10_000)),
	} {
		if err := users.Update(func(txn *brock.Txn) error { return txn.SetEntry(e) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	first := t.TempDir() // where the first ten minutes are spent
	must(t, first, "", "set", "marks.db", "ann", "1")
	ran := make(map[string]bool)
	for _, c := range commands {
		command, _, _ := strings.Cut(c[1], " # ")
		if ran[command] { // the guide shows it twice
			continue
		}
		ran[command] = true
		if strings.Contains(command, "marks.db") {
			must(t, first, "", strings.Fields(command)...)
			continue
		}
		must(t, dir, "", strings.Fields(strings.NewReplacer("/data/", "", "/backups", "backups", "/etc/brock/", "").Replace(command))...)
	}
	original := must(t, dir, "", "dump", "store")
	loaded := must(t, dir, "", "dump", "copy")
	if original != loaded {
		t.Errorf("the copy has\n%s\nwant\n%s", loaded, original)
	}
	if restored := must(t, dir, "", "dump", "new"); original != restored {
		t.Errorf("the restored store has\n%s\nwant\n%s", restored, original)
	}
	db, err = brock.Open(brock.Options{Dir: filepath.Join(dir, "copy")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if users, err = db.Keyspace("users"); err != nil {
		t.Fatal(err)
	}
	err = users.View(func(txn *brock.Txn) error {
		item, err := txn.Get([]byte("17"))
		if err != nil {
			return err
		}
		if item.Meta() != 7 || !item.ExpiresAt().Equal(expires) {
			t.Errorf("the copy has meta %d and expires at %v, want 7 and %v", item.Meta(), item.ExpiresAt(), expires)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
