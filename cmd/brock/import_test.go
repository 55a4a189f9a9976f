package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// bePeers has the test binary, when it is called brock-peers, print what it was given, and end with
// this code.
const bePeers = "BROCK_TEST_PEERS"

func peersMain(code string) {
	fmt.Println(strings.Join(os.Args[1:], " "))
	fmt.Fprintln(os.Stderr, "it says so")
	n, _ := strconv.Atoi(code) // the tests give numbers
	os.Exit(n)
}

// TestPeers: import and export --bbolt run another program with what they were given, and end as it
// does.
func TestPeers(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	peers := filepath.Join(t.TempDir(), peersProgram)
	if err := os.Symlink(self, peers); err != nil {
		t.Skip(err) // Windows
	}
	t.Setenv(peersEnv, peers)
	for i, c := range []struct{ args, want string }{
		{"import badger4 from to", "import -- badger4 from to\n"},
		{"import badger1 --history from --source-value-dir=v to --value-dir=w", "import --source-value-dir=v --history --value-dir=w -- badger1 from to\n"},
		{"import badger3 from to --verify --key-file=k --source-key-file=l", "compare --source-key-file=l --key-file=k -- badger3 from to\n"},
		{"import bbolt -- -file- to", "import -- bbolt -file- to\n"},
		{"export to --bbolt=b", "export -- to b\n"},
		{"export to --bbolt=b --default-bucket=c --value-dir=v", "export --default-bucket=c --value-dir=v -- to b\n"},
	} {
		codes := []int{exitOK, exitFailed, exitUsage, exitCorrupt, exitInUse, exitInput, exitInterrupted}
		if i > 0 {
			codes = codes[:1] // they don't depend on the command
		}
		for _, code := range codes {
			t.Setenv(bePeers, strconv.Itoa(code))
			r := brockIn(t, t.TempDir(), "", strings.Fields(c.args)...)
			if r.out != c.want || r.err != "it says so\n" || r.code != code {
				t.Errorf("%s: exit code %d instead of %d, %s%s", c.args, r.code, code, r.out, r.err)
			}
		}
	}
	for _, args := range []string{"import badger5 from to", "import badger4 from", "import"} {
		if r := brockIn(t, t.TempDir(), "", strings.Fields(args)...); r.code != exitUsage || r.out != "" {
			t.Errorf("%s: exit code %d, %s", args, r.code, r.out)
		}
	}
	if out := must(t, t.TempDir(), "", "complete", "--", "import", "ba"); strings.Count(out, "\n") != 4 || !strings.HasPrefix(out, "badger4\n") {
		t.Errorf("completions of import: %s", out)
	}
	if out := must(t, t.TempDir(), "", "complete", "--", "import", "badger4", ""); out != "" {
		t.Errorf("completions of a directory: %s", out)
	}
}

// TestNoPeers: without the program, an import says how to get it.
func TestNoPeers(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	r := brockIn(t, t.TempDir(), "", "import", "badger4", "from", "to")
	if r.code != exitFailed || !strings.Contains(r.err, "go install github.com/brockdb/brock/importers/cmd/brock-peers@latest") {
		t.Errorf("exit code %d, %s", r.code, r.err)
	}
}
