package compact

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/version/layout"
)

// Range deletes go where no older run can have a key of their range, once no reader and
// no commit needs them.
func TestRangeDeletesThatHideNothingGo(t *testing.T) {
	older := &layout.RunMeta{First: []byte("\x00k0"), Last: []byte("\x00k8")}
	d := func(lo, hi string, v entry.Version) rangedel.Delete {
		return rangedel.Delete{Lo: []byte("\x00" + lo), Hi: []byte("\x00" + hi), Version: v}
	}
	inputs := sources(rangedel.New(d("a", "b", 5), d("a", "k0", 6), d("k2", "k3", 7), d("k8x", "m", 8), d("z", "zz", 9), d("zz", "zzz", 11), d("zzzz", "zzzzz", 13)))
	for _, c := range []struct {
		name  string
		rules Rules
		want  string
	}{
		{"readers of all versions", Rules{History: History{Watermark: 20}, Checked: 20, Older: []*layout.RunMeta{older}}, "[k2 k3)"},
		{"a commit reads version 10", Rules{History: History{Watermark: 12}, Checked: 10, Older: []*layout.RunMeta{older}}, "[k2 k3)[zz zzz)[zzzz zzzzz)"},
		{"the bottom", Rules{History: History{Watermark: 20}, Checked: 20, Bottom: true}, ""},
		{"nothing is known", Rules{History: History{Watermark: 20}, Checked: 20}, "[a k0)[k2 k3)[k8x m)[z zz)[zz zzz)[zzzz zzzzz)"},
	} {
		c.rules.RangeDeletes = inputs
		got := ""
		for _, d := range written(t, c.rules) {
			got += fmt.Sprintf("[%s %s)", d.Lo[1:], d.Hi[1:])
		}
		if got != c.want {
			t.Errorf("%s: %s stay, want %s", c.name, got, c.want)
		}
	}
}

// forests is a rangeDeleteWriter that counts.
type forests struct {
	collected
	sizes  []int // bytes of each, as forestBytes counts them
	newest collected
}

func (f *forests) AddHistory(list []rangedel.Delete) error {
	n := 0
	for _, d := range list {
		n += len(d.Lo) + len(d.Hi) + rangeDeleteBytes
	}
	f.sizes = append(f.sizes, n)
	return f.collected.AddHistory(list)
}

func (f *forests) AddNewest(d rangedel.Delete) error { return f.newest.AddRangeDelete(d) }

// A long history goes to forests of bounded size, in the order of versions and each range delete
// once, and readers of all of it get the newest at each place.
func TestLongHistoryTakesSeveralForests(t *testing.T) {
	long := strings.Repeat("b", 2000)
	key := func(i int) []byte { return fmt.Appendf(nil, "\x00%04d%s", i, long) }
	var lists [3][]rangedel.Delete
	var all []rangedel.Delete
	for i := range 3000 {
		lo := i * 7 % 1000
		d := rangedel.Delete{Lo: key(lo), Hi: key(lo + 1 + i%5), Version: entry.Version(11 + i/2)}
		all = append(all, d)
		lists[i%3] = append(lists[i%3], d)
	}
	// Two inputs may have the same one.
	lists[0] = append(lists[0], lists[1][:10]...)
	rules := Rules{History: History{Watermark: 10}}
	for _, l := range lists {
		rules.RangeDeletes = append(rules.RangeDeletes, rangedel.New(l...))
	}
	var got forests
	if err := rules.writeRangeDeletes(&got, new(layout.Account)); err != nil {
		t.Fatal(err)
	}
	want := rangedel.New(all...)
	if !slices.EqualFunc(got.collected, want.All(), func(a, b rangedel.Delete) bool { return rangedel.Compare(a, b) == 0 }) {
		t.Errorf("%d range deletes, want %d", len(got.collected), want.Len())
	}
	if len(got.sizes) < 3 || slices.Max(got.sizes) > forestBytes {
		t.Errorf("forests of %d bytes, at most %d are allowed", got.sizes, forestBytes)
	}
	newest := rangedel.New(got.newest...)
	for i := range 1010 {
		for _, k := range [][]byte{key(i), append(key(i), 0)} {
			if a, b := newest.Newest(k, entry.MaxVersion), want.Newest(k, entry.MaxVersion); a != b {
				t.Fatalf("newest over key %d: %d, want %d", i, a, b)
			}
		}
	}
}
