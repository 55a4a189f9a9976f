package keyring

import (
	"path/filepath"
	"testing"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/vfs"
)

// TestHalfAKeyring: a crash has left a keyring of which one copy is whole. It counts; it is no
// damage as long as the file before is there, and Clean makes a whole one of it.
func TestHalfAKeyring(t *testing.T) {
	for _, size := range []int64{4096, 4096 + 3584, 8191} {
		fsys := vfs.NewMem()
		o := Options{FS: fsys, Dir: "s", UUID: testUUID, Keys: StaticKey(make([]byte, 32))}
		must(t, fsys.MkdirAll("s"))
		k, err := Create(o)
		must(t, err)
		id, err := k.Add(t.Context(), nil, 0)
		must(t, err)
		cut := func() {
			f, err := fsys.OpenReadWrite(filepath.Join("s", filename.Of(filename.Keyring, k.Content().Number)))
			must(t, err)
			must(t, f.Truncate(size))
			must(t, f.Close())
		}
		wantFound := func(want int) {
			t.Helper()
			n := 0
			must(t, VerifyNewest(fsys, "s", testUUID, func(*errs.Corruption) { n++ }))
			if n != want {
				t.Errorf("cut to %d bytes: %d damages, want %d", size, n, want)
			}
		}
		cut()
		k, err = Open(o)
		must(t, err)
		wantFound(0)
		must(t, k.Clean())
		if nums, err := numbers(fsys, "s"); err != nil || len(nums) != 1 || nums[0] != k.Content().Number || nums[0] != 3 {
			t.Errorf("left are %v, %v", nums, err)
		}
		must(t, Verify(fsys, "s", testUUID, k.Content().Number))
		if k.Content().findKey(id) == nil || len(k.Content().Keys) != 2 {
			t.Errorf("keys %v", k.Content().Keys)
		}
		cut()
		wantFound(1) // the file before is gone: this one had been whole
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
