package keyring

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/vfs"
)

// The files of a keyring: which of them counts, how one is written, and when older ones go.

// listNumbers lists the keyring files in dir, the greatest number first.
func listNumbers(fsys vfs.FS, dir string) ([]entry.FileNum, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	var nums []entry.FileNum
	for _, base := range names {
		if name, ours := filename.Parse(base); ours && name.Kind == filename.Keyring {
			nums = append(nums, name.Number)
		}
	}
	slices.Sort(nums)
	slices.Reverse(nums)
	return nums, nil
}

// Load reads the keyring of the store uuid in dir: the file with the greatest number that has a
// whole copy. It needs no provider and writes nothing. If there is none, the
// error wraps errs.ErrKey, and what is wrong with those that are there.
func Load(fsys vfs.FS, dir string, uuid [16]byte) (*Content, error) {
	c, _, err := loadNewest(fsys, dir, uuid)
	return c, err
}

// loadNewest is Load. It also returns what is wrong with one copy of the file; nil: both are whole.
func loadNewest(fsys vfs.FS, dir string, uuid [16]byte) (c *Content, wrong, err error) {
	// The store's writer may make a keyring and remove the one before meanwhile. Then a file of
	// the list is gone, or the list has neither of the two.
	for range loadTries {
		var nums []entry.FileNum
		if nums, err = listNumbers(fsys, dir); err == nil {
			c, wrong, err = loadFirst(fsys, dir, uuid, nums)
		}
		if len(nums) > 0 && !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("keyring: %w", err)
	}
	return c, wrong, nil
}

// loadTries bounds how often a writer may come between the names of a list, or between a list
// and a file.
const loadTries = 10

// loadFirst reads the first of these files that has a whole copy.
func loadFirst(fsys vfs.FS, dir string, uuid [16]byte, nums []entry.FileNum) (c *Content, wrong, err error) {
	none := fmt.Errorf("%w: %s has no keyring (%s) of this store", errs.ErrKey, dir, filename.Of(filename.Keyring, 1))
	for _, num := range nums {
		p, err := pageio.ReadHead(fsys, filepath.Join(dir, filename.Of(filename.Keyring, num)), maxFile)
		if err != nil {
			// Not the one before: if the newest can't be read now, it may still be whole, with a
			// key that the older one lacks.
			return nil, nil, err
		}
		c, wrong := Decode(p, uuid, num)
		if c != nil {
			return c, wrong, nil
		}
		// A crash may have left the newest file without a whole copy. Then the one before counts,
		// which stays until the newer one is durable.
		none = fmt.Errorf("%w: %w", none, wrong)
	}
	return nil, nil, none
}

// Verify reads both copies of the keyring with this number. It returns what is wrong with them,
// also if one of them is whole.
func Verify(fsys vfs.FS, dir string, uuid [16]byte, num entry.FileNum) error {
	p, err := pageio.ReadHead(fsys, filepath.Join(dir, filename.Of(filename.Keyring, num)), maxFile)
	if err == nil {
		_, err = Decode(p, uuid, num)
	}
	return err
}

// VerifyNewest is Verify of the keyring that Load returns. Damage is reported: one whole copy is
// enough. While a file before is there, it is no damage: a crash may have cut the newer one off,
// and the next Open for writing mends that.
func VerifyNewest(fsys vfs.FS, dir string, uuid [16]byte, report func(*errs.Corruption)) error {
	c, wrong, err := loadNewest(fsys, dir, uuid)
	if err != nil {
		return err
	}
	var damage *errs.Corruption
	if !errors.As(wrong, &damage) {
		return wrong
	}
	older, err := c.listOlder(fsys, dir)
	if err == nil && len(older) == 0 {
		report(damage)
	}
	return err
}

// Write makes the file in dir, which has none with this number, and syncs it and its name. On
// an error it removes what it made, if it can.
func (c *Content) Write(fsys vfs.FS, dir string) error {
	path := filepath.Join(dir, filename.Of(filename.Keyring, c.Number))
	err := pageio.CreateFile(fsys, path, func(w io.Writer) error {
		_, err := w.Write(c.Encode())
		return err
	})
	if err != nil {
		return err
	}
	// Before anything is encrypted under a key that only this file has.
	if err := fsys.SyncDir(dir); err != nil {
		return errors.Join(err, fsys.Remove(path))
	}
	return nil
}

// Unfinished reports whether a file that begins with p may be a keyring, or what a crash leaves of
// one. Any other file belongs to another program, though it has the name.
func Unfinished(p []byte) bool { return mayBeOf(p, nil) }

// mayBeOf reports whether p begins with zeros, or as a copy of the keyring of the store uuid does;
// without one, of any store. Less than a header is compared as far as it goes.
func mayBeOf(p, uuid []byte) bool {
	p = p[:min(len(p), headerSize)]
	if len(bytes.TrimLeft(p, "\x00")) == 0 {
		return true
	}
	m := min(len(p), len(magic))
	return string(p[:m]) == magic[:m] && (len(p) < headerSize || bytes.HasPrefix(p[16:], uuid))
}

// listOlder lists the keyrings of this store whose number is smaller than that of c.
func (c *Content) listOlder(fsys vfs.FS, dir string) ([]entry.FileNum, error) {
	nums, err := listNumbers(fsys, dir)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(nums, func(n entry.FileNum) bool {
		if n >= c.Number {
			return true
		}
		p, err := pageio.ReadHead(fsys, filepath.Join(dir, filename.Of(filename.Keyring, n)), maxFile)
		// Left out if it can't be read, or is not of this store: it may be the only copy of
		// somebody's keys.
		return err != nil || !mayBeOf(p, c.UUID[:]) && !mayBeOf(p[len(p)/2:], c.UUID[:])
	}), nil
}
