package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brockdb/brock/cmd/brock/internal/pairs"
	"github.com/brockdb/brock/internal/test/kit/deadline"
)

// TestLoadOfSlowPipe: pairs are stored while the next one is waited for, and those that have come
// when the command is interrupted are stored, too.
func TestLoadOfSlowPipe(t *testing.T) {
	dir := t.TempDir()
	cmd := process(t, dir, "load", "s", "-")
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		if _, err := io.WriteString(in, text); err != nil {
			t.Fatal(err)
		}
	}
	write("{\"key\":\"a\",\"value\":1}\n{\"key\":\"b\",\"value\":2}\n")
	deadline.Wait(t, "two pairs are stored", func() bool { return brockIn(t, dir, "", "count", "s").out == "2\n" })
	// The command has read a long line once the write of it returns, and so all before it.
	write("{\"key\":\"c\",\"value\":3}\n{\"key\":\"" + strings.Repeat("d", 3_000_000))
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Skip(err) // Windows
	}
	_ = cmd.Wait() // its error is the exit code
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted || !strings.HasSuffix(said.String(), "3 pairs stored; the rest is not\nbrock: interrupted\n") {
		t.Errorf("exit code %d, %s", code, said.String())
	}
	if got := must(t, dir, "", "count", "s"); got != "3\n" {
		t.Errorf("%s pairs are there", got)
	}
}

// TestLoadRefusesStores: the files of a store are no pairs, wherever in the tree they are.
func TestLoadRefusesStores(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "tree/a", "1")
	writeFile(t, dir, "other/SUPER", "not a store")
	must(t, dir, "", "set", "tree/deep/store", "a", "1")
	for _, source := range []string{"tree", "tree/deep/store"} {
		r := brockIn(t, dir, "", "load", "new", source)
		if want := filepath.FromSlash("tree/deep/store: it is a Brock store"); r.code != exitInput || !strings.Contains(r.err, want) {
			t.Errorf("load of %s: exit code %d, %s", source, r.code, r.err)
		}
	}
	must(t, dir, "", "load", "new", "other")
}

// TestLoadProgress: what is done is never more than there is.
func TestLoadProgress(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "f.csv", "id,a long name of a column\n"+strings.Repeat("k,v\n", 100_000))
	source, err := (&loadCommand{Path: filepath.Join(dir, "f.csv"), inputFlags: inputFlags{Key: "id"}}).source(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	done, values := int64(0), int64(0)
	err = source.Each(func(p pairs.Pair, at pairs.Place) error {
		done, values = done+at.Size, values+int64(len(p.Value))
		return nil
	})
	if err != nil || done > source.Bytes() || values <= source.Bytes() {
		t.Errorf("%d of %d bytes are done, values have %d; %v", done, source.Bytes(), values, err)
	}
}
