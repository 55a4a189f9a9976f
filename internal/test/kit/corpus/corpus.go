// Package corpus gives fuzz targets their seeds, and keeps them as files, too: fuzzers of others
// start from testdata/fuzz, and don't see what a target adds by itself.
package corpus

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var write = flag.Bool("corpus", false, "write the seeds of fuzz targets to testdata/fuzz")

// maxFile is the greatest seed in bytes that is kept as a file: mutations of longer ones find little.
const maxFile = 32 << 10

// Add adds a seed to a target, as f.Add does, unless a file has it already.
func Add(f *testing.F, args ...any) {
	f.Helper()
	seed := encodeSeed(args)
	dir := filepath.Join("testdata", "fuzz", f.Name())
	file := filepath.Join(dir, fmt.Sprintf("seed-%x", sha256.Sum256([]byte(seed)))[:16])
	if _, err := os.Stat(file); err == nil {
		return // go test runs it
	}
	f.Add(args...)
	if !*write || len(seed) > maxFile {
		return
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(seed), 0o666); err != nil {
		f.Fatal(err)
	}
}

// encodeSeed returns the content of a file that go test reads as args.
func encodeSeed(args []any) string {
	var b strings.Builder
	b.WriteString("go test fuzz v1\n")
	for _, arg := range args {
		switch arg := arg.(type) {
		case []byte:
			fmt.Fprintf(&b, "[]byte(%q)\n", arg)
		case string:
			fmt.Fprintf(&b, "string(%q)\n", arg)
		case byte:
			fmt.Fprintf(&b, "byte('\\x%02x')\n", arg)
		default:
			fmt.Fprintf(&b, "%T(%v)\n", arg, arg)
		}
	}
	return b.String()
}
