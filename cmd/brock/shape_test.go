package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/disk/filename"
)

// TestInspectDirectory: each file is listed once, also of a store that is damaged, or in
// use by another process.
func TestInspectDirectory(t *testing.T) {
	dir := makeStore(t)
	writeFile(t, dir, "notes.txt", "mine")
	writeFile(t, dir, filename.Of(filename.Run, 999), "left over")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	listed := func(out string) {
		t.Helper()
		for _, e := range entries {
			if strings.Count(out, string(filepath.Separator)+e.Name()+" ") != 1 {
				t.Errorf("%s is not listed once in\n%s", e.Name(), out)
			}
		}
	}
	out := must(t, "", "", "inspect", dir)
	listed(out)
	for _, want := range []string{"run 3, upper: 151 entries", "journal, not flushed yet", "left over", "not a file of the store", "names the manifest"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	db, err := brock.Open(brock.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if out := must(t, "", "", "inspect", dir); !strings.Contains(out, "run 3") {
		t.Errorf("while it is in use:\n%s", out)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	super, err := os.ReadFile(filepath.Join(dir, "SUPER"))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, "SUPER", string(super[:8])+strings.Repeat("?", len(super)-8))
	if entries, err = os.ReadDir(dir); err != nil {
		t.Fatal(err)
	}
	r := brockIn(t, "", "", "inspect", dir)
	if r.code != exitCorrupt || !strings.Contains(r.err, "SUPER") {
		t.Errorf("damaged: exit code %d, %s", r.code, r.err)
	}
	listed(r.out)
}

// Files that the manifest names and that are not there are listed as missing.
func TestInspectMissingFiles(t *testing.T) {
	dir := makeStore(t)
	if out := must(t, "", "", "inspect", dir); strings.Contains(out, "missing") {
		t.Errorf("of a sound store:\n%s", out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.run"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	out := must(t, "", "", "inspect", dir)
	for _, name := range files {
		if !strings.Contains(out, "missing  "+filepath.Base(name)+"  run ") {
			t.Errorf("%s is not listed as missing in\n%s", name, out)
		}
	}
}

func TestInspectRefuses(t *testing.T) {
	dir := t.TempDir()
	if r := brockIn(t, dir, "", "inspect", "."); r.code != exitFailed || !strings.Contains(r.err, ".: not a Brock store") {
		t.Errorf("exit code %d, %s", r.code, r.err)
	}
	if r := brockIn(t, dir, "", "inspect", "nothing"); r.code != exitFailed {
		t.Errorf("exit code %d, %s", r.code, r.err)
	}
}

func TestInspectValueDir(t *testing.T) {
	dir := t.TempDir()
	must(t, dir, "", "set", "keys", "k", "v", "--value-dir=values")
	out := must(t, dir, "", "inspect", "keys", "--value-dir=values")
	if !strings.Contains(out, filepath.Join("keys", "SUPER")) || !strings.Contains(out, filepath.Join("values", filename.Of(filename.Journal, 1))) {
		t.Error(out)
	}
	if !strings.Contains(out, "says whose values these are") || strings.Count(out, "names the manifest") != 1 {
		t.Errorf("each SUPER has a purpose of its own:\n%s", out)
	}
	for _, args := range [][]string{{"inspect", "keys"}, {"get", "keys", "k"}} {
		if r := brockIn(t, dir, "", args...); r.code != exitUsage || !strings.Contains(r.err, "keys has a directory for its values: name it by --value-dir") {
			t.Errorf("%v: exit code %d, %s", args, r.code, r.err)
		}
	}
}

// TestValueDirOfEncrypted: the word on --value-dir doesn't depend on what SUPER shows without keys.
func TestValueDirOfEncrypted(t *testing.T) {
	dir := t.TempDir()
	must(t, dir, "", "keygen", "key-file")
	must(t, dir, "", "set", "s", "k", "v", "--value-dir=values", "--key-file=key-file")
	for _, args := range [][]string{{"inspect", "s"}, {"get", "s", "k"}, {"set", "s", "k", "w"}} {
		if r := brockIn(t, dir, "", append(args, "--key-file=key-file")...); r.code != exitUsage || !strings.Contains(r.err, "s has a directory for its values: name it by --value-dir") {
			t.Errorf("%v: exit code %d, %s", args, r.code, r.err)
		}
	}
}

// TestInspectEncrypted: who tidies up by hand must not be told that a keyring is left over.
func TestInspectEncrypted(t *testing.T) {
	dir := t.TempDir()
	must(t, dir, "", "keygen", "key-file")
	must(t, dir, "", "set", "s", "k", "v", "--key-file=key-file")
	must(t, dir, "", "rekey", "s", "--key-file=key-file")
	writeFile(t, dir, "s/KEYS-000009", "")
	out := must(t, dir, "", "inspect", "s", "--key-file=key-file")
	for _, want := range []string{
		"KEYS-000002  the data keys, wrapped by the master key: without it nobody can read the store",
		"KEYS-000001  left over", "KEYS-000009  keyring that was not finished",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	must(t, dir, "", "set", "plain", "k", "v")
	if r := brockIn(t, dir, "", "inspect", "plain", "--key-file=key-file"); r.code != exitFailed || !strings.Contains(r.err, "plain is not encrypted") {
		t.Errorf("exit code %d, %s", r.code, r.err)
	}
}

// TestTree: a bar for each run and segment, with what is dead.
func TestTree(t *testing.T) {
	dir := makeStore(t)
	db, err := brock.Open(brock.Options{Dir: dir, Maintenance: brock.Maintenance{GarbageRatio: 4, IdleAfter: 1 << 40}})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.DeleteRange([]byte("key 09"), []byte("key 12")); err != nil {
		t.Fatal(err)
	}
	if err := db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := db.Set([]byte("k"), []byte("only in the journal")); err != nil {
		t.Fatal(err)
	}
	if r := brockIn(t, "", "", "tree", dir); r.code != exitInUse && !strings.Contains(r.out, "not flushed yet: 1 entry\n1 run,") {
		t.Errorf("in use: exit code %d, %s", r.code, r.err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	out := must(t, "", "", "tree", dir, "--width=20")
	for _, want := range []string{"not flushed yet: 1 entry\n1 run,", "  base ", "170 entries", strings.Repeat("█", 20), "░"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if r := brockIn(t, "", "", "tree", dir, "--width=0"); r.code != exitUsage {
		t.Errorf("no width: exit code %d", r.code)
	}
	if r := brockIn(t, t.TempDir(), "", "tree", "nowhere"); r.code != exitFailed || !strings.Contains(r.err, "no store in nowhere") {
		t.Errorf("no store: exit code %d, %s", r.code, r.err)
	}
}

func TestBar(t *testing.T) {
	for _, test := range []struct {
		most, size, dead uint64
		want             string
	}{
		{100, 100, 0, "██████████"},
		{100, 50, 25, "██░░░     "}, // 2.5 cells are 3
		{100, 1, 1, "░         "},
		{100, 0, 0, "          "},
		{0, 0, 0, "          "},
	} {
		if got := bar(10, test.most, test.size, test.dead); got != test.want {
			t.Errorf("%+v: %q", test, got)
		}
	}
}
