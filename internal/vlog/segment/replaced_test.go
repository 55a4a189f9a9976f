package segment

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
)

// A segment whose descriptor was given up is replaced on disk: what is read by
// handle then is found to be wrong. What is mapped is still what it was.
func TestReplacedFileIsFound(t *testing.T) { forms(t, testReplacedFileIsFound) }

func testReplacedFileIsFound(t *testing.T, testConfig func(testing.TB) Config) {
	lengths := []int{600, 5000, 70_000}
	others := []struct {
		name    string
		lengths []int
		foreign bool
	}{
		{"the same of another store", lengths, true},
		{"other places in the same store", []int{700, 5000, 70_000}, false},
		{"nothing", nil, false},
	}
	for _, other := range others {
		for _, noMap := range []bool{false, true} {
			c := testConfig(t)
			c.Files = pageio.NewFiles(c.FS, 1)
			handles, stats := writeValues(t, c, lengths)
			r := must(openAny(c, filename.Value, stats.Number, OpenOptions{End: stats.Size, NoMap: noMap}))(t)
			by := testConfig(t)
			if other.foreign {
				by.UUID[3]++
			}
			writeValues(t, by, other.lengths)
			replacement := by.filePath(filename.Value, stats.Number)
			must(c.Files.Open(replacement, pageio.Options{}))(t).Close() // takes the only descriptor
			if err := os.Rename(replacement, c.filePath(filename.Value, stats.Number)); err != nil {
				t.Fatal(err)
			}
			for i, h := range handles {
				got, err := plain(r.Stored(h, key(i), entry.Version(i+1)))
				var damage *errs.Corruption
				found := errors.As(err, &damage) && damage.File == filename.Of(filename.Value, stats.Number)
				switch {
				case found:
				case r.file.Mapped() != nil && err == nil && bytes.Equal(got, value(i, lengths[i])):
				default:
					t.Errorf("%s, mapped %v, value %d: got %d bytes, %v; want a corruption of the segment", other.name, !noMap, i, len(got), err)
				}
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
