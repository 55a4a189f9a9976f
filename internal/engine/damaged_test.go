package engine

import (
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
)

// Views keep the list that they were given: add must not write to it.
func TestDamagedReplacesItsList(t *testing.T) {
	var d damagedFiles
	d.add(3)
	before := d.list()
	d.add(5)
	if !slices.Equal(before, []entry.FileNum{3}) {
		t.Errorf("the old list became %v", before)
	}
	if after := d.list(); !slices.Equal(after, []entry.FileNum{3, 5}) {
		t.Errorf("damaged segments are %v", after)
	}
}
