package manifest

import (
	"errors"
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/vfs"
)

// TestClaim claims directories, and gives them back in each way.
func TestClaim(t *testing.T) {
	mem := vfs.NewMem()
	o := Options{FS: mem, Dir: "/new/store", ValueDir: "/new"}
	names := func(dir string) []string {
		names, _ := mem.List(dir)
		return names
	}
	create := func(path string) {
		t.Helper()
		f, err := mem.Create(path)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	c, err := NewClaim(o, mem.OpenDirs)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewClaim(o, mem.OpenDirs); !errors.Is(err, errs.ErrLocked) {
		t.Fatalf("a second claim: %v", err)
	}
	for _, path := range []string{"/new/store/SUPER", "/new/store/000002.run", "/new/000001.log", "/new/SUPER"} {
		create(path)
	}
	cause := errors.New("cause")
	if err := c.Close(cause); err != cause {
		t.Fatalf("Close of a store that was not finished: %v", err)
	}
	if left := names("/"); len(left) != 0 {
		t.Fatalf("left: %q", left)
	}

	if c, err = NewClaim(o, mem.OpenDirs); err != nil {
		t.Fatal(err)
	}
	create("/new/store/SUPER")
	if err := c.Close(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := NewClaim(o, mem.OpenDirs); !errors.Is(err, errs.ErrExist) {
		t.Fatalf("a claim of a store: %v", err)
	}
	if got := names("/new/store"); !slices.Equal(got, []string{"LOCK", "SUPER"}) {
		t.Fatalf("after a claim that was refused: %q", got)
	}

	// What was there stays.
	if err := mem.MkdirAll("/used"); err != nil {
		t.Fatal(err)
	}
	create("/used/.hidden")
	if c, err = NewClaim(Options{FS: mem, Dir: "/used"}, mem.OpenDirs); err != nil {
		t.Fatal(err)
	}
	_ = c.Close(cause)
	if got := names("/used"); !slices.Equal(got, []string{".hidden"}) {
		t.Fatalf("names of a directory that was there: %q", got)
	}
}

// TestClaimFails has each call of a claim fail: nothing is left.
func TestClaimFails(t *testing.T) {
	for nth := 1; ; nth++ {
		mem := vfs.NewMem()
		failing := faultfs.New(mem, faultfs.Options{})
		failing.Inject(faultfs.Fault{Nth: nth})
		c, err := NewClaim(Options{FS: failing, Dir: "/new/store", ValueDir: "/new/values"}, failing.OpenDirs)
		if err == nil {
			_ = c.Close(nil)
			return
		}
		for _, dir := range []string{"/new/store", "/new/values"} {
			if names, err := mem.List(dir); err == nil {
				t.Fatalf("call %d failed, and %s is there with %q", nth, dir, names)
			}
		}
	}
}
