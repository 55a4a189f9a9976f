package store

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/vfs"
)

// plainStore is one with all kinds of files, that was killed.
func plainStore(t *testing.T, values string) (mem *vfs.Mem, want string) {
	t.Helper()
	mem = vfs.NewMem()
	options := plainOptions(mem, values)
	db, err := brock.Open(options)
	must(t, err)
	for n := range 3 {
		secrets(t, db, n)
		must(t, db.Flush(t.Context()))
	}
	must2(db.Reclaim(t.Context()))
	secrets(t, db, 3)
	want = contents(t, db)
	left := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	must(t, db.Close())
	return left, want
}

func plainOptions(fs vfs.FS, values string) brock.Options {
	o := keyedOptions(fs, dir)
	o.Keys, o.ValueDir = nil, values
	return o
}

// checkEncrypted opens a store that is encrypted, and has its files rewritten.
func checkEncrypted(t *testing.T, fs vfs.FS, values, want string) {
	t.Helper()
	options := keyedOptions(fs, dir)
	options.ValueDir = values
	db, err := brock.Open(options)
	must(t, err)
	if got := contents(t, db); got != want {
		t.Fatalf("encrypted: %.500q\nwant\n%.500q", got, want)
	}
	must(t, db.Verify(t.Context(), nil))
	must(t, db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: true}))
	if got := contents(t, db); got != want {
		t.Fatalf("rewritten: %.500q\nwant\n%.500q", got, want)
	}
	must(t, db.Verify(t.Context(), nil))
	if n := db.Metrics().Tree.OldKeyBytes; n != 0 {
		t.Errorf("%d bytes are plain", n)
	}
	must(t, db.Close())
	for _, d := range []string{dir, values} {
		if d == "" {
			continue
		}
		if found := inClear(t, fs, d); found != nil {
			t.Errorf("in clear: %v", found)
		}
	}
}

// TestEncryptStore: the encrypted store has what the plain one had; once it is rewritten,
// nothing is in clear, and no plain store can be put back in its place.
func TestEncryptStore(t *testing.T) {
	for _, values := range []string{"", filepath.Join(filepath.Dir(dir), "values")} {
		mem, want := plainStore(t, values)
		options := keyedOptions(mem, dir)
		options.ValueDir = values
		must(t, brock.EncryptStore(t.Context(), options))
		_, err := brock.Open(plainOptions(mem, values))
		wantErr(t, "Open without keys", err, brock.ErrKey)
		wantErr(t, "again", brock.EncryptStore(t.Context(), options), brock.ErrKey)
		checkEncrypted(t, mem, values, want)
	}
}

// TestEncryptStoreRefused: nothing changes.
func TestEncryptStoreRefused(t *testing.T) {
	mem, want := plainStore(t, "")
	wantErr(t, "without keys", brock.EncryptStore(t.Context(), plainOptions(mem, "")), brock.ErrInvalid)
	options := keyedOptions(mem, dir)
	options.Mode = brock.ReadOnly
	wantErr(t, "read-only", brock.EncryptStore(t.Context(), options), brock.ErrInvalid)
	options = keyedOptions(mem, dir)
	options.Keys = brock.StaticKey([]byte("short"))
	wantErr(t, "with a short key", brock.EncryptStore(t.Context(), options), brock.ErrKey)
	db, err := brock.Open(plainOptions(mem, ""))
	must(t, err)
	wantErr(t, "of an open store", brock.EncryptStore(t.Context(), keyedOptions(mem, dir)), brock.ErrLocked)
	wantEqual(t, "the plain store", contents(t, db), want)
	must(t, db.Close())
	wantErr(t, "of none", brock.EncryptStore(t.Context(), keyedOptions(vfs.NewMem(), dir)), brock.ErrNotExist)
}

// TestEncryptStoreCrashes before each call: it is the plain store then, or the encrypted one.
func TestEncryptStoreCrashes(t *testing.T) {
	t.Parallel()
	for _, values := range []string{"", filepath.Join(filepath.Dir(dir), "values")} {
		begun, want := plainStore(t, values)
		left := crashes(t, begun, func(fs vfs.FS) {
			options := keyedOptions(fs, dir)
			options.ValueDir = values
			must(t, brock.EncryptStore(t.Context(), options))
		})
		stride := 11 // no multiple of the modes of a crash
		switch {
		case *every:
			stride = 1
		case testing.Short():
			stride = 31
		}
		plain, encrypted := 0, 0
		chosen := []int{0, len(left) - 1} // a plain store, and an encrypted one
		for at := len(left) - 1 - draw.Rand(t).IntN(stride); at >= 0; at -= stride {
			chosen = append(chosen, at)
		}
		i := 0
		namesWhenFailed(t, "crash", &i)
		for _, i = range chosen {
			mem := left[i]
			db, err := brock.Open(plainOptions(mem, values))
			if errors.Is(err, brock.ErrKey) {
				encrypted++
				checkEncrypted(t, mem, values, want)
				continue
			}
			must(t, err)
			plain++
			if got := contents(t, db); got != want {
				t.Fatalf("crash %d: %.500q", i, got)
			}
			must(t, db.Verify(t.Context(), nil))
			must(t, db.Close())
			options := keyedOptions(mem, dir)
			options.ValueDir = values
			must(t, brock.EncryptStore(t.Context(), options))
			checkEncrypted(t, mem, values, want)
		}
		if plain == 0 || encrypted == 0 {
			t.Errorf("%d plain, %d encrypted", plain, encrypted)
		}
	}
}

// TestEncryptStoreFaults: whichever call fails, the store is plain or encrypted, and whole.
func TestEncryptStoreFaults(t *testing.T) {
	t.Parallel()
	values := filepath.Join(filepath.Dir(dir), "values")
	begun, want := plainStore(t, values)
	step := 5
	if *every {
		step = 1
	}
	for nth := 1 + draw.Rand(t).IntN(step); ; nth += step {
		mem := begun.CrashClone(vfs.CrashOptions{Mode: vfs.All})
		fs := faultfs.New(mem, faultfs.Options{})
		fs.Inject(faultfs.Fault{Kinds: faultfs.Changes | faultfs.Syncs, Nth: nth})
		options := keyedOptions(fs, dir)
		options.ValueDir = values
		failed := brock.EncryptStore(t.Context(), options)
		if fs.Struck() == 0 {
			must(t, failed)
			return
		}
		for _, mode := range []vfs.CrashMode{vfs.Lost, vfs.All} {
			mem := mem.CrashClone(vfs.CrashOptions{Mode: mode})
			if db, err := brock.Open(plainOptions(mem, values)); !errors.Is(err, brock.ErrKey) {
				must(t, err)
				if got := contents(t, db); got != want {
					t.Fatalf("fault %d: %.500q", nth, got)
				}
				must(t, db.Close())
				options.FS = mem
				must(t, brock.EncryptStore(t.Context(), options))
			} else if failed == nil && mode == vfs.Lost {
				t.Logf("fault %d did no harm", nth)
			}
			checkEncrypted(t, mem, values, want)
		}
		if testing.Short() {
			nth += nth / 3
		}
	}
}
