package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTry runs the whole trial, kills included, on sources of each kind.
func TestTry(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "tree/a/large", strings.Repeat("0123456789", 50_000))
	writeFile(t, dir, "tree/a/b/small", "x")
	writeFile(t, dir, "tree/empty", "")
	writeFile(t, dir, "tree/\xffodd", "y")
	writeFile(t, dir, "f.jsonl", `{"key":"a","value":"1"}`+"\n"+`{"key":"b","value":"2"}`+"\n"+`{"key":"a","value":"3"}`+"\n")
	writeFile(t, dir, "f.csv", "\uFEFFa,1,x\r\n\"b\n\",\"2\n2\",y\na,3,z\n")
	writeFile(t, dir, "ours.csv", "key,attributes,value\nYQ==,base64,/w==\nb,,2\n")
	writeFile(t, dir, "f.tsv", "a\t1\n\nb\t2\t3\n")
	for _, test := range []struct {
		source string
		pairs  int
	}{{"tree", 4}, {"f.jsonl", 2}, {"f.csv", 2}, {"ours.csv", 2}, {"f.tsv", 2}} {
		t.Run(test.source, func(t *testing.T) {
			t.Parallel()
			out := must(t, dir, "", "try", test.source, "--dir", t.TempDir(), "--rounds=2", "--updates=50ms", "--json")
			var r struct {
				Passed bool
				Dir    string
				Steps  []struct {
					Name   string
					Result struct{ Pairs, AcknowledgedCommits, KilledInRecovery, Audits int }
				}
			}
			if err := json.Unmarshal([]byte(out), &r); err != nil {
				t.Fatal(err)
			}
			if len(r.Steps) != 8 || !r.Passed || r.Steps[0].Result.Pairs != test.pairs || r.Steps[1].Result.Pairs != test.pairs ||
				r.Steps[3].Result.Audits == 0 || r.Steps[5].Result.AcknowledgedCommits == 0 || r.Steps[5].Result.KilledInRecovery != 1 {
				t.Error(out)
			}
			if _, err := os.Stat(r.Dir); !os.IsNotExist(err) {
				t.Errorf("the store is still there: %v", err)
			}
		})
	}
}

func TestTryKeepsTheStore(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "tree/a", "1")
	out := must(t, dir, "", "try", "tree", "--dir=stores", "--rounds=0", "--updates=1ms", "--keep")
	stores, err := filepath.Glob(filepath.Join(dir, "stores", "*"))
	if err != nil || len(stores) != 1 || !strings.Contains(out, "All is well") || !strings.Contains(out, "stores/"+filepath.Base(stores[0])) {
		t.Fatalf("%v, %v, %s", stores, err, out)
	}
	if got := must(t, "", "", "get", stores[0], "a"); got != "1" {
		t.Errorf("a is %q in the store that was kept", got)
	}
}

func TestTryRefuses(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "photo.jpg", "x")
	writeFile(t, dir, "bad.jsonl", "{\"key\":\"a\",\"value\":\"1\"}\n{}\n")
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ source, message string }{
		{"nothing", "no such file"},
		{"photo.jpg", "does not end in .jsonl, .csv or .tsv"},
		{"bad.jsonl", "bad.jsonl:2: no \"key\""},
		{"empty", "there is nothing in it"},
	} {
		r := brockIn(t, dir, "", "try", test.source, "--dir", dir)
		if r.code != exitFailed || !strings.Contains(r.err, test.message) {
			t.Errorf("%s: exit code %d, %s", test.source, r.code, r.err)
		}
	}
}

// TestTryInterrupted: nothing is left of a trial that the user ends.
func TestTryInterrupted(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "tree/a", "1")
	cmd := process(t, dir, "try", "tree", "--dir=stores", "--updates=1m")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	text, interrupted := "", false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		text += lines.Text() + "\n"
		if !interrupted && strings.Contains(lines.Text(), "scan") {
			interrupted = true
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Skip(err) // Windows
			}
		}
	}
	_ = cmd.Wait()
	stores, err := os.ReadDir(filepath.Join(dir, "stores"))
	if err != nil || len(stores) != 0 || cmd.ProcessState.ExitCode() != exitFailed || !strings.Contains(text, "Interrupted") {
		t.Errorf("exit code %d, %v is left, %v: %s", cmd.ProcessState.ExitCode(), stores, err, text)
	}
}

// TestTryWithoutToolchain: a machine that has the command, and not Go.
func TestTryWithoutToolchain(t *testing.T) {
	cmd := process(t, "", "try")
	cmd.Env = append(cmd.Env, "PATH=")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), errNoSource.Error()) {
		t.Errorf("%v: %s", err, out)
	}
}
