package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDecodeEvents(t *testing.T) {
	base, err := decodeEvents([]byte(`
		{"Action":"pass","Package":"p","Test":"TestA"}
		{"Action":"pass","Package":"p","Test":"TestB"}
		{"Action":"pass","Package":"p","Test":"TestC"}
		{"Action":"skip","Package":"p","Test":"TestD"}
		{"Action":"pass","Package":"p"}`))
	if err != nil || len(base.passed) != 3 || len(base.skipped) != 1 || len(base.failed) != 0 {
		t.Fatal(base, err)
	}
	other, err := decodeEvents([]byte(`
		{"Action":"pass","Package":"p","Test":"TestA"}
		{"Action":"output","Package":"p","Test":"TestB","Output":"wrong\n"}
		{"Action":"fail","Package":"p","Test":"TestB"}
		{"Action":"fail","Package":"p","Test":"TestC"}
		{"Action":"fail","Package":"p"}
		{"Action":"build-output","ImportPath":"q","Output":"undefined\n"}
		{"Action":"fail","Package":"q"}`))
	if err != nil || other.failed["p TestB"] != "wrong\n" || other.failed["q"] != "undefined\n" || len(other.failed) != 3 {
		t.Fatal(other, err)
	}
	worse := other.worseThan(base, map[string]string{"TestC": "a reason"})
	if len(worse) != 1 || worse[0] != "p TestB" {
		t.Fatal(worse)
	}
	if _, err := decodeEvents([]byte("no JSON")); err == nil {
		t.Fatal("no JSON passes")
	}
}

// TestPortedCopy: the copy of this module is one under Badger's path, with its limit if that is asked
// for, and without tests.
func TestPortedCopy(t *testing.T) {
	for _, limited := range []bool{false, true} {
		target := t.TempDir()
		if err := writePorted(filepath.Join("..", "..", ".."), target, limited); err != nil {
			t.Fatal(err)
		}
		err := filepath.WalkDir(target, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			if bytes.Contains(content, []byte(`"`+portedPath)) || strings.HasSuffix(path, "_test.go") {
				t.Error(path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		module, err := os.ReadFile(filepath.Join(target, "go.mod"))
		if err != nil || !bytes.HasPrefix(module, []byte("module "+badgerPath+"\n")) ||
			bytes.Contains(module, []byte(badgerPath+" v")) || !bytes.Contains(module, []byte(brockPath+" v")) {
			t.Fatalf("%s, %v", module, err)
		}
		options, err := os.ReadFile(filepath.Join(target, "options.go"))
		if err != nil || bytes.Contains(options, []byte("LimitTxnSize: true")) != limited {
			t.Fatal("LimitTxnSize", err)
		}
	}
}

// TestDropUncompiled: what does not compile is left out, with what uses it and with imports that are not
// used any more; the rest stays.
func TestDropUncompiled(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod": "module m\n\ngo 1.25\n",
		"m.go":   "package m\n\nfunc Known() int { return 1 }\n",
		"m_test.go": `package m

import (
	"os"
	"testing"
)

func inside() int { return unknown(os.Args) }

func TestInside(t *testing.T) {
	if inside() != 1 {
		t.Fatal()
	}
}

func TestKnown(t *testing.T) {
	if Known() != 1 {
		t.Fatal()
	}
}
`,
	} {
		if err := writeFile(filepath.Join(dir, name), []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := dropUncompiled(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	names, err := testNames(dir)
	if err != nil || len(names) != 1 || names[0] != "TestKnown" {
		t.Fatal(names, err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "m_test.go"))
	if err != nil || bytes.Contains(content, []byte("os")) || bytes.Contains(content, []byte("inside")) {
		t.Fatalf("%s, %v", content, err)
	}
}
