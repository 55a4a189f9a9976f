package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brockdb/brock"
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
	writeFile(t, dir, "any.jsonl", "{\"id\":7}\n {\"id\":\"x\",\"y\":[]}\n")
	writeFile(t, dir, "any.csv", "name,age\nAnn,7\n\"Bo\nb\",8\n")
	for _, test := range []struct {
		source string
		pairs  int
		flags  string
	}{{"tree", 4, ""}, {"f.jsonl", 2, ""}, {"f.csv", 2, ""}, {"ours.csv", 2, ""}, {"f.tsv", 2, ""},
		{"any.jsonl", 2, "--key=id"}, {"any.csv", 2, "--key=name"}, {"any.csv", 2, "--header"}} {
		t.Run(test.source+test.flags, func(t *testing.T) {
			t.Parallel()
			out := must(t, dir, "", append(strings.Fields("try --rounds=2 --updates=50ms --json "+test.flags), test.source, "--dir", t.TempDir())...)
			var r struct {
				Passed bool
				Dir    string
				Steps  []struct {
					Name   string
					Result struct{ Pairs, Nanoseconds, AcknowledgedCommits, KilledInRecovery, Audits int }
				}
			}
			if err := json.Unmarshal([]byte(out), &r); err != nil {
				t.Fatal(err)
			}
			if len(r.Steps) != 8 || !r.Passed || r.Steps[0].Result.Pairs != test.pairs || r.Steps[1].Result.Pairs != test.pairs || r.Steps[1].Result.Nanoseconds == 0 ||
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
	writeFile(t, dir, "any.jsonl", "{\"id\":1}\n")
	writeFile(t, dir, "long.tsv", strings.Repeat("k", brock.MaxKeySize+1)+"\tv\n")
	writeFile(t, dir, "dump.jsonl", "{\"keyspace\":\"k\"}\n")
	for _, test := range []struct {
		source, message string
		code            int
	}{
		{"nothing", "no such file", exitFailed},
		{"photo.jpg", "does not end in .jsonl, .csv or .tsv", exitInput},
		{"bad.jsonl", "bad.jsonl:2: no \"key\"", exitInput},
		{"any.jsonl", "--key FIELD takes any objects", exitInput},
		{"long.tsv", "long.tsv:1: key larger than", exitInput},
		{"dump.jsonl", "dump.jsonl:1: a dump of many keyspaces", exitInput},
		{"empty", "there is nothing in it", exitInput},
	} {
		r := brockIn(t, dir, "", "try", test.source, "--dir", "stores")
		if r.code != test.code || !strings.Contains(r.err, test.message) || strings.Contains(r.out, "FAILED") {
			t.Errorf("%s: exit code %d, %s%s", test.source, r.code, r.out, r.err)
		}
	}
	if stores, _ := os.ReadDir(filepath.Join(dir, "stores")); len(stores) > 0 {
		t.Errorf("%v is left", stores)
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
	if err != nil || len(stores) != 0 || cmd.ProcessState.ExitCode() != exitInterrupted || !strings.Contains(text, "Interrupted") {
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
