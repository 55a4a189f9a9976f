package compact

import (
	"fmt"
	"testing"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/run/meta"
	"github.com/brockdb/brock/internal/tombstone"
)

// Range tombstones go where no older run can have a key of their range, once no reader and
// no commit needs them.
func TestTombstonesThatHideNothingGo(t *testing.T) {
	older := &meta.Run{First: []byte("\x00k0"), Last: []byte("\x00k8")}
	d := func(lo, hi string, v entry.Version) tombstone.Tombstone {
		return tombstone.Tombstone{Lo: []byte("\x00" + lo), Hi: []byte("\x00" + hi), Version: v}
	}
	inputs := sources(tombstone.New(d("a", "b", 5), d("a", "k0", 6), d("k2", "k3", 7), d("k8x", "m", 8), d("z", "zz", 9), d("zz", "zzz", 11), d("zzzz", "zzzzz", 13)))
	for _, c := range []struct {
		name  string
		rules Rules
		want  string
	}{
		{"readers of all versions", Rules{Watermark: 20, Checked: 20, Older: []*meta.Run{older}}, "[k2 k3)"},
		{"a commit reads version 10", Rules{Watermark: 12, Checked: 10, Older: []*meta.Run{older}}, "[k2 k3)[zz zzz)[zzzz zzzzz)"},
		{"the bottom", Rules{Watermark: 20, Checked: 20, Bottom: true}, ""},
		{"nothing is known", Rules{Watermark: 20, Checked: 20}, "[a k0)[k2 k3)[k8x m)[z zz)[zz zzz)[zzzz zzzzz)"},
	} {
		c.rules.Tombstones = inputs
		got := ""
		for _, d := range written(t, c.rules) {
			got += fmt.Sprintf("[%s %s)", d.Lo[1:], d.Hi[1:])
		}
		if got != c.want {
			t.Errorf("%s: %s stay, want %s", c.name, got, c.want)
		}
	}
}
