package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/vfs"
)

// Dir is the directory of the one store of a file system in memory.
const Dir = "/store"

// WriteFile makes a file, and its directory.
func WriteFile(t *testing.T, fsys vfs.FS, name, content string) {
	t.Helper()
	assert.OK(t, fsys.MkdirAll(filepath.Dir(name)))
	f, err := fsys.Create(name)
	assert.OK(t, err)
	_, err = f.WriteAt([]byte(content), 0)
	assert.OK(t, errors.Join(err, f.Close()))
}

// ReadFile returns all bytes of a file.
func ReadFile(t *testing.T, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(name)
	assert.OK(t, err)
	p := make([]byte, ReadSize(t, f))
	_, err = f.ReadAt(p, 0)
	assert.OK(t, errors.Join(err, f.Close()))
	return p
}

// EditFile changes the bytes of a file.
func EditFile(t *testing.T, fsys vfs.FS, name string, change func(p []byte)) {
	t.Helper()
	f, err := fsys.OpenReadWrite(name)
	assert.OK(t, err)
	p := make([]byte, ReadSize(t, f))
	_, err = f.ReadAt(p, 0)
	assert.OK(t, err)
	change(p)
	_, err = f.WriteAt(p, 0)
	assert.OK(t, errors.Join(err, f.Close()))
}

// ReadSize returns the size of an open file in bytes.
func ReadSize(t *testing.T, f vfs.File) int64 {
	n, err := f.Size()
	assert.OK(t, err)
	return n
}

// ShowFiles returns the names of all files in Dir, and their bytes: of long ones the
// checksum.
func ShowFiles(t *testing.T, fsys vfs.FS) string {
	t.Helper()
	names, err := fsys.List(Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "no directory"
	}
	assert.OK(t, err)
	var all bytes.Buffer
	for _, name := range names {
		p := ReadFile(t, fsys, filepath.Join(Dir, name))
		if len(p) > 100 {
			p = fmt.Appendf(nil, "%d bytes, %08x", len(p), checksum.Plain(p))
		}
		fmt.Fprintf(&all, "%s %q\n", name, p)
	}
	return all.String()
}

// OmitLock leaves out a LOCK of ours: a refused Open may make one, or take the name
// of a killed process out of it.
func OmitLock(content string) string {
	return strings.NewReplacer("LOCK \"\"\n", "", "LOCK \"this process\\n\"\n", "").Replace(content)
}

// ListFiles lists the files of the store in "db" whose names end so.
func ListFiles(t *testing.T, fsys vfs.FS, end string) (list []string) {
	t.Helper()
	for _, name := range assert.Must(fsys.List("db")) {
		if strings.HasSuffix(name, end) {
			list = append(list, "db/"+name)
		}
	}
	return list
}

// FlipBit changes one bit of a byte of a file.
func FlipBit(t *testing.T, fsys vfs.FS, name string, off int) {
	t.Helper()
	EditFile(t, fsys, name, func(p []byte) { p[off] ^= 0x10 })
}
