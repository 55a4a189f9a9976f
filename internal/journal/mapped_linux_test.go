package journal

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/frame"
	"github.com/brockdb/brock/vfs"
)

// TestBigGroupsAreReadBelowAGuard cuts a file while a group is read that is so big that it
// is in the file's mapping: that is an error, and not the end of the process.
func TestBigGroupsAreReadBelowAGuard(t *testing.T) {
	var dir string
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	sum := 0
	cut := func(pos entry.Position, payload []byte, _ frame.Header) error {
		if err := os.Truncate(filepath.Join(dir, filename.Of(filename.Journal, pos.Segment)), pos.Offset); err != nil {
			return err
		}
		for _, c := range payload {
			sum += int(c)
		}
		return nil
	}
	for name, read := range map[string]func(c ReplayConfig) error{
		"replay": func(c ReplayConfig) error { _, err := Replay(c, cut); return err },
		"follow": func(c ReplayConfig) error { return NewFollower(c, cut).Follow(Known{Durable: 1}) },
	} {
		t.Run(name, func(t *testing.T) {
			dir = t.TempDir()
			payload, _ := group(1, 0, 17<<20)
			j := New(Config{FS: vfs.OS(), Dir: dir, UUID: uuid, Ring: testRing, Owner: &owner{}})
			_, err := j.Append(1, [][]byte{payload})
			must(err)
			must(j.Sync())
			must(j.Close())
			err = read(ReplayConfig{FS: vfs.OS(), Dir: dir, UUID: uuid, Ring: testRing, ReadOnly: true})
			if !errors.Is(err, errs.ErrCorrupt) {
				t.Errorf("%v, after %d", err, sum)
			}
		})
	}
}
