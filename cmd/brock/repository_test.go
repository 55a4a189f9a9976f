package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock/repository"
)

var backupIDs = regexp.MustCompile(`[0-9a-f]{8}-\d{8}T\d{6}\.\d{3}Z-[0-9a-z]{10}`)

// An encrypted store goes to a repository and back, and is shown, with its key file and no other.
func TestKeyFileOfRepository(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"keys", "others"} {
		must(t, dir, "", "keygen", file)
	}
	must(t, dir, "", "set", "s", "apple", "red", "--key-file=keys")
	must(t, dir, "", "backup", "s", "--repository=r", "--key-file=keys")
	must(t, dir, "", "repository", "restore", "r", "new", "--key-file=keys")
	if got := must(t, dir, "", "get", "new", "apple", "--key-file=keys"); got != "red" {
		t.Errorf("restored %q", got)
	}
	if r := brockIn(t, dir, "", "repository", "restore", "r", "other", "--key-file=others"); r.code != exitFailed || !strings.Contains(r.err, "wrong or missing key") {
		t.Errorf("restored with another key: %+v", r)
	}
	must(t, dir, "", "repository", "restore", "r", "unseen")
	for _, command := range [][]string{{"tree", "new"}, {"inspect", "new"}} {
		must(t, dir, "", append(command, "--key-file=keys")...)
		if r := brockIn(t, dir, "", command...); r.code != exitFailed || !strings.Contains(r.err, "--key-file") {
			t.Errorf("%v without a key file: %+v", command, r)
		}
	}
}

// TestRepository makes, lists, verifies, restores and prunes backups.
func TestRepository(t *testing.T) {
	dir := t.TempDir()
	var made []repository.Done
	for _, value := range []string{"red", "green", "blue"} {
		must(t, dir, "", "set", "s", "apple", value)
		var done repository.Done
		if err := json.Unmarshal([]byte(must(t, dir, "", "backup", "s", "--repository=r", "--json")), &done); err != nil {
			t.Fatal(err)
		}
		made = append(made, done)
	}
	if out := must(t, dir, "", "backup", "s", "--repository=r"); !strings.HasPrefix(out, "backup "+made[0].ID[:8]) || !strings.Contains(out, " of version 3: ") {
		t.Errorf("backup says %q", out)
	}
	found := backupIDs.FindAllString(must(t, dir, "", "repository", "r"), -1)
	if len(found) != 4 || found[1] != made[1].ID {
		t.Errorf("listed: %q", found)
	}
	if out := must(t, dir, "", "repository", "restore", "r", "green", "--id="+made[1].ID); !strings.HasPrefix(out, "green is the store as of version 2, ") {
		t.Errorf("restore says %q", out)
	}
	must(t, dir, "", "repository", "restore", "r", "blue")
	if a, b := must(t, dir, "", "get", "green", "apple"), must(t, dir, "", "get", "blue", "apple"); a != "green" || b != "blue" {
		t.Errorf("restored are %q and %q", a, b)
	}
	if r := brockIn(t, dir, "", "repository", "restore", "r", "blue"); r.code != exitFailed || !strings.Contains(r.err, "store already exists: blue") {
		t.Errorf("restored twice: %+v", r)
	}
	if out := must(t, dir, "", "repository", "verify", "r", "--quick"); !strings.HasSuffix(out, "of 4 backups are there; they were not read\n") {
		t.Errorf("verify says %q", out)
	}
	out := must(t, dir, "", "repository", "prune", "r", "--last=1", "--no-backups")
	if left := backupIDs.FindAllString(must(t, dir, "", "repository", "list", "r", "--json"), -1); len(left) != 1 || left[0] != found[3] {
		t.Errorf("prune says %q, and leaves %q", out, left)
	}
	if out := must(t, dir, "", "repository", "prune", "r", "--last=1", "--json"); !strings.Contains(out, `"removed": []`) {
		t.Errorf("a prune of nothing says %s", out)
	}
	objects, err := filepath.Glob(filepath.Join(dir, "r", "objects", "*"))
	if err != nil || len(objects) == 0 {
		t.Fatal(err)
	}
	if err := os.Truncate(objects[0], 5); err != nil {
		t.Fatal(err)
	}
	if r := brockIn(t, dir, "", "repository", "verify", "r"); r.code != exitCorrupt || r.err != "" || !strings.Contains(r.out, filepath.Base(objects[0])) {
		t.Errorf("verify with a cut object: %+v", r)
	}
	if r := brockIn(t, dir, "", "repository", "restore", "r", "cut"); r.code != exitCorrupt {
		t.Errorf("restore with a cut object: %+v", r)
	}
	if _, err := os.Stat(filepath.Join(dir, "cut")); err == nil {
		t.Error("a restore that failed leaves its directory")
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"brock: no repository in nowhere\n", []string{"repository", "nowhere"}},
		{"brock: no store in nowhere\n", []string{"backup", "nowhere", "--repository=new"}},
		{"brock: no such backup: \"x\"\n", []string{"repository", "restore", "r", "x", "--id=x"}},
		{"brock: prune: no such backup: \"x\"\n", []string{"repository", "prune", "r", "--remove=x"}},
	} {
		if r := brockIn(t, dir, "", c.args...); r.code != exitFailed || r.err != c.want {
			t.Errorf("%q: %+v", c.args, r)
		}
	}
	// The first backup has failed: prune removes what it has left, and nothing of others.
	for object, want := range map[string]string{
		strings.Repeat("5a", 32) + "-hlff3za6ib":               "5 B in 1 file deleted",
		strings.Repeat("5a", 32) + "-hlff3za6ib-Z234567A.part": "0 backups removed",
		"pack": "no repository",
	} {
		writeFile(t, dir, "of "+object+"/objects/"+object, "begun")
		r := brockIn(t, dir, "", "repository", "prune", "of "+object, "--no-backups")
		if !strings.Contains(r.out+r.err, want) {
			t.Errorf("prune with the object %s: %+v", object, r)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
		t.Error("a backup of nothing has made a repository")
	}
}

// TestKilledBackups kills backups at any moment. Those that were made can be restored, and
// the next one goes on.
func TestKilledBackups(t *testing.T) {
	dir := t.TempDir()
	kills := 30
	if testing.Short() {
		kills = 8
	}
	whole := 0
	for i := range kills {
		must(t, dir, "", "set", "s", "key"+strings.Repeat("k", i), strings.Repeat("v", 100000))
		p := process(t, dir, "backup", "s", "--repository=r")
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Duration(i)*5*time.Millisecond, func() { _ = p.Process.Kill() })
		if p.Wait() == nil {
			whole++
		}
		if _, err := os.Stat(filepath.Join(dir, "r", "backups")); err != nil {
			continue
		}
		listed := len(backupIDs.FindAllString(must(t, dir, "", "repository", "r"), -1))
		if must(t, dir, "", "repository", "verify", "r"); listed < whole {
			t.Errorf("%d backups have succeeded, %d are listed", whole, listed)
		}
	}
	must(t, dir, "", "backup", "s", "--repository=r")
	must(t, dir, "", "repository", "prune", "r", "--last=1", "--no-backups")
	must(t, dir, "", "repository", "restore", "r", "copy")
	if must(t, dir, "", "dump", "s") != must(t, dir, "", "dump", "copy") {
		t.Error("the last backup has other contents")
	}
	names, err := filepath.Glob(filepath.Join(dir, "r", "*", "*.part"))
	if left := list(t, dir); err != nil || len(names) != 0 || strings.Contains(left, "scratch") {
		t.Errorf("%q and %q are left", names, left)
	}
	t.Logf("%d of %d backups were not killed", whole, kills)
}

// TestRepositoryIsNoStream: who names a repository where a file is wanted is told of the right command.
func TestRepositoryIsNoStream(t *testing.T) {
	dir := t.TempDir()
	must(t, dir, "", "set", "s", "k", "v")
	must(t, dir, "", "backup", "s", "--repository=r")
	for _, args := range [][]string{{"restore", "r", "new"}, {"verify-backup", "r"}} {
		if r := brockIn(t, dir, "", args...); r.code != exitUsage || !strings.Contains(r.err, "r is a directory, and no backup in a file; for a repository there is brock repository") {
			t.Errorf("%v: exit code %d, %s", args, r.code, r.err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); !os.IsNotExist(err) {
		t.Errorf("a store was made: %v", err)
	}
}
