package garbage

import (
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
)

// Views keep the list that they were given: Add must not write to it.
func TestDamagedReplacesItsList(t *testing.T) {
	var d Damaged
	d.Add(3)
	before := d.List()
	d.Add(5)
	if !slices.Equal(before, []entry.FileNum{3}) {
		t.Errorf("the old list became %v", before)
	}
	if after := d.List(); !slices.Equal(after, []entry.FileNum{3, 5}) {
		t.Errorf("damaged segments are %v", after)
	}
}
