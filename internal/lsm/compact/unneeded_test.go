package compact

import (
	"errors"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/rangedel"
)

// unreadable is range deletes that can't be read.
type unreadable struct{}

func (unreadable) Versions() (least, greatest entry.Version) { return 1, 4 }

func (unreadable) Ordered(entry.Version) rangedel.Sequence { return nil }

func (unreadable) Find([]byte, entry.Version, *rangedel.Stretch) (entry.Version, error) {
	return 0, errors.New("unreadable")
}

// Nothing is unneeded because of range deletes that can't be read: a run that goes unread
// takes its entries with it.
func TestUnreadableRangeDeletesCoverNothing(t *testing.T) {
	far := rangedel.New(rangedel.Delete{Lo: []byte("x"), Hi: []byte("z"), Version: 9})
	for _, sources := range [][]rangedel.Source{{unreadable{}}, {far, unreadable{}}} {
		if end := rangeDeleteOver(sources, []byte("b"), 1, 10); end != nil {
			t.Errorf("%d sources: all up to %q is unneeded", len(sources), end)
		}
	}
	if end := rangeDeleteOver([]rangedel.Source{far}, []byte("y"), 1, 10); string(end) != "z" {
		t.Errorf("a range delete up to z covers up to %q", end)
	}
}
