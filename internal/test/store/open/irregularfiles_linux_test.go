package open

import (
	"golang.org/x/sys/unix"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestIrregularFiles puts pipes, directories and links under the names of a store's files
// and under names that the store doesn't know. Open returns at once: an error for a file
// that it needs. What is not ours stays.
func TestIrregularFiles(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	db := busyStore(t, mem, brock.Options{Dir: "/s"})
	left := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	assert.OK(t, db.Close())
	names, err := left.List("/s")
	assert.OK(t, err)
	strange := []string{"000777.run", "000777.val", "MANIFEST-000777"}
	for kind, plant := range map[string]func(string) error{
		"pipe":      func(name string) error { return unix.Mkfifo(name, 0o600) },
		"directory": func(name string) error { return os.Mkdir(name, 0o700) },
		"dangling":  func(name string) error { return os.Symlink("nothing", name) },
		"loop":      func(name string) error { return os.Symlink(filepath.Base(name), name) },
		"link":      func(name string) error { return os.Symlink("../copy", name) },
	} {
		for _, planted := range slices.Concat(names, strange) {
			for _, mode := range []brock.OpenMode{brock.ReadOnly, brock.ReadWrite} {
				at := filepath.Join(t.TempDir(), "s")
				for _, name := range names {
					content := string(storetest.ReadFile(t, left, filepath.Join("/s", name)))
					if name == planted {
						name = "../copy"
					}
					storetest.WriteFile(t, vfs.OS(), filepath.Join(at, name), content)
				}
				assert.OK(t, plant(filepath.Join(at, planted)))
				db, err := brock.Open(brock.Options{Dir: at, Mode: mode})
				if err == nil {
					assert.OK(t, db.Close())
				}
				if want := slices.Contains(strange, planted); (err == nil) != want {
					t.Errorf("%s is a %s, mode %d: %v", planted, kind, mode, err)
				}
				if i, err := os.Lstat(filepath.Join(at, planted)); err != nil || i.Mode().IsRegular() {
					t.Errorf("the %s %s is gone: %v", kind, planted, err)
				}
			}
		}
	}
}
