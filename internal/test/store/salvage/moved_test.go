package salvage

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestSalvageOfMovedValues: collections have moved values, and runs lead to them by forwarding
// tables. Salvage finds all of them, by their keys, with these tables, with damaged ones and
// without them, and also without MANIFEST. It takes no older value for one that is damaged where it
// lies now.
func TestSalvageOfMovedValues(t *testing.T) {
	var reclaiming atomic.Bool
	var mem *vfs.Mem // when values have moved, and runs lead to their old places still
	all := vfs.NewMem()
	o := salvageOptions(faultfs.New(all, faultfs.Options{Before: func(op faultfs.Op) {
		if !reclaiming.Load() || op.Kind != faultfs.Create || filepath.Ext(op.Path) != ".run" || mem != nil {
			return
		}
		if slices.ContainsFunc(assert.Must(all.List("/old")), func(name string) bool { return filepath.Ext(name) == ".map" }) {
			mem = all.CrashClone(vfs.CrashOptions{Mode: vfs.All})
		}
	}}), "/old")
	db := assert.Must(brock.Open(o))
	want := map[string][]byte{}
	for round := range 3 {
		for i := 0; i < 600; i += round + 1 {
			key := fmt.Sprintf("key %04d", i)
			want[key] = storetest.RandomBytes(1000*round+i, 1000)
			assert.OK(t, db.Set([]byte(key), want[key]))
		}
		assert.OK(t, db.Flush(t.Context()))
	}
	reclaiming.Store(true)
	assert.Must(db.Reclaim(t.Context()))
	assert.OK(t, db.Close())
	if mem == nil {
		t.Fatal("runs never led to values by forwarding tables")
	}
	ending := func(fs vfs.FS, ext string) (list []string) {
		for _, name := range assert.Must(fs.List("/old")) {
			if filepath.Ext(name) == ext || strings.HasPrefix(name, ext) {
				list = append(list, filepath.Join("/old", name))
			}
		}
		return list
	}
	remove := func(fs vfs.FS, ext string) {
		for _, path := range ending(fs, ext) {
			assert.OK(t, fs.Remove(path))
		}
	}
	flip := func(fs vfs.FS, path string, at int) {
		f := assert.Must(fs.OpenReadWrite(path))
		assert.Must(f.WriteAt([]byte{readAll(t, fs, path)[at] ^ 1}, int64(at)))
		assert.OK(t, f.Close())
	}
	// spoil damages a value wherever it lies: a collection that was under way may have a copy.
	spoil := func(fs vfs.FS, key string) {
		found := false
		for _, path := range slices.Concat(ending(fs, ".log"), ending(fs, ".val")) {
			if at := bytes.Index(readAll(t, fs, path), want[key][:64]); at >= 0 {
				flip(fs, path, at+500)
				found = true
			}
		}
		if !found {
			t.Fatalf("%s is nowhere", key)
		}
	}
	for _, c := range []struct {
		name   string
		damage func(fs vfs.FS)
		losses bool
		lost   string // key whose newest value is damaged
	}{
		{name: "sound", damage: func(vfs.FS) {}},
		{name: "damaged tables", damage: func(fs vfs.FS) {
			for _, path := range ending(fs, ".map") {
				flip(fs, path, 4200)
			}
		}},
		{name: "no tables", damage: func(fs vfs.FS) { remove(fs, ".map") }},
		{name: "no tables and no manifest", damage: func(fs vfs.FS) { remove(fs, ".map"); remove(fs, "MANIFEST") }, losses: true},
		{name: "a damaged value", damage: func(fs vfs.FS) { spoil(fs, "key 0007") }, losses: true, lost: "key 0007"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
			c.damage(fs)
			var losses []string
			sum, err := brock.Salvage(t.Context(), brock.Options{FS: fs, Dir: "/old"}, salvageOptions(fs, "/new"), func(l *brock.CorruptionError) { losses = append(losses, l.Error()) })
			assert.OK(t, err)
			if (len(losses) > 0) != c.losses {
				t.Errorf("losses: %q", losses)
			}
			if sum.Found != 0 {
				t.Errorf("%d keys were found without their entries, and runs have all", sum.Found)
			}
			db := storetest.OpenExisting(t, salvageOptions(fs, "/new"))
			for key, v := range want {
				got, err := db.Get([]byte(key))
				if same := err == nil && bytes.Equal(got, v); same == (key == c.lost) {
					t.Errorf("%s: %d bytes, %v", key, len(got), err)
				}
			}
		})
	}
}
