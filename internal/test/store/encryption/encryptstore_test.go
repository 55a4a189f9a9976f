package encryption

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/process"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// plainStore is one with all kinds of files, that was killed.
func plainStore(t *testing.T, values string) (mem *vfs.Mem, want string) {
	t.Helper()
	mem = vfs.NewMem()
	options := plainOptions(mem, values)
	db, err := brock.Open(options)
	assert.OK(t, err)
	for n := range 3 {
		secrets(t, db, n)
		assert.OK(t, db.Flush(t.Context()))
	}
	assert.Must(db.Reclaim(t.Context()))
	secrets(t, db, 3)
	want = storetest.ShowContents(t, db)
	left := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	assert.OK(t, db.Close())
	return left, want
}

func plainOptions(fs vfs.FS, values string) brock.Options {
	o := storetest.KeyedOptions(fs, storetest.Dir)
	o.Keys, o.ValueDir = nil, values
	return o
}

// checkEncrypted opens a store that is encrypted, and has its files rewritten.
func checkEncrypted(t *testing.T, fs vfs.FS, values, want string) {
	t.Helper()
	options := storetest.KeyedOptions(fs, storetest.Dir)
	options.ValueDir = values
	db, err := brock.Open(options)
	assert.OK(t, err)
	if got := storetest.ShowContents(t, db); got != want {
		t.Fatalf("encrypted: %.500q\nwant\n%.500q", got, want)
	}
	assert.OK(t, db.Verify(t.Context(), nil))
	assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: true}))
	if got := storetest.ShowContents(t, db); got != want {
		t.Fatalf("rewritten: %.500q\nwant\n%.500q", got, want)
	}
	assert.OK(t, db.Verify(t.Context(), nil))
	if n := db.Metrics().Tree.OldKeyBytes; n != 0 {
		t.Errorf("%d bytes are plain", n)
	}
	assert.OK(t, db.Close())
	for _, d := range []string{storetest.Dir, values} {
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
	t.Parallel()
	for _, values := range []string{"", filepath.Join(filepath.Dir(storetest.Dir), "values")} {
		mem, want := plainStore(t, values)
		options := storetest.KeyedOptions(mem, storetest.Dir)
		options.ValueDir = values
		assert.OK(t, brock.EncryptStore(t.Context(), options))
		_, err := brock.Open(plainOptions(mem, values))
		assert.Error(t, "Open without keys", err, brock.ErrKey)
		assert.Error(t, "again", brock.EncryptStore(t.Context(), options), brock.ErrKey)
		checkEncrypted(t, mem, values, want)
	}
}

// TestEncryptStoreRefused: nothing changes.
func TestEncryptStoreRefused(t *testing.T) {
	t.Parallel()
	mem, want := plainStore(t, "")
	assert.Error(t, "without keys", brock.EncryptStore(t.Context(), plainOptions(mem, "")), brock.ErrInvalid)
	options := storetest.KeyedOptions(mem, storetest.Dir)
	options.Mode = brock.ReadOnly
	assert.Error(t, "read-only", brock.EncryptStore(t.Context(), options), brock.ErrInvalid)
	options = storetest.KeyedOptions(mem, storetest.Dir)
	options.Keys = brock.StaticKey([]byte("short"))
	assert.Error(t, "with a short key", brock.EncryptStore(t.Context(), options), brock.ErrKey)
	db, err := brock.Open(plainOptions(mem, ""))
	assert.OK(t, err)
	assert.Error(t, "of an open store", brock.EncryptStore(t.Context(), storetest.KeyedOptions(mem, storetest.Dir)), brock.ErrLocked)
	assert.Equal(t, "the plain store", storetest.ShowContents(t, db), want)
	assert.OK(t, db.Close())
	assert.Error(t, "of none", brock.EncryptStore(t.Context(), storetest.KeyedOptions(vfs.NewMem(), storetest.Dir)), brock.ErrNotExist)
}

// TestEncryptStoreCrashes before each call: it is the plain store then, or the encrypted one.
func TestEncryptStoreCrashes(t *testing.T) {
	t.Parallel()
	for _, values := range []string{"", filepath.Join(filepath.Dir(storetest.Dir), "values")} {
		begun, want := plainStore(t, values)
		left := crashes(t, begun, func(fs vfs.FS) {
			options := storetest.KeyedOptions(fs, storetest.Dir)
			options.ValueDir = values
			assert.OK(t, brock.EncryptStore(t.Context(), options))
		})
		stride := 11 // no multiple of the modes of a crash
		switch {
		case *storetest.Every:
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
		process.LogWhenFailed(t, "crash", &i)
		for _, i = range chosen {
			mem := left[i]
			db, err := brock.Open(plainOptions(mem, values))
			if errors.Is(err, brock.ErrKey) {
				encrypted++
				checkEncrypted(t, mem, values, want)
				continue
			}
			assert.OK(t, err)
			plain++
			if got := storetest.ShowContents(t, db); got != want {
				t.Fatalf("crash %d: %.500q", i, got)
			}
			assert.OK(t, db.Verify(t.Context(), nil))
			assert.OK(t, db.Close())
			options := storetest.KeyedOptions(mem, storetest.Dir)
			options.ValueDir = values
			assert.OK(t, brock.EncryptStore(t.Context(), options))
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
	values := filepath.Join(filepath.Dir(storetest.Dir), "values")
	begun, want := plainStore(t, values)
	step := 5
	if *storetest.Every {
		step = 1
	}
	for nth := 1 + draw.Rand(t).IntN(step); ; nth += step {
		mem := begun.CrashClone(vfs.CrashOptions{Mode: vfs.All})
		fs := faultfs.New(mem, faultfs.Options{})
		fs.Inject(faultfs.Fault{Kinds: faultfs.Changes | faultfs.Syncs, Nth: nth})
		options := storetest.KeyedOptions(fs, storetest.Dir)
		options.ValueDir = values
		failed := brock.EncryptStore(t.Context(), options)
		if fs.Struck() == 0 {
			assert.OK(t, failed)
			return
		}
		for _, mode := range []vfs.CrashMode{vfs.Lost, vfs.All} {
			mem := mem.CrashClone(vfs.CrashOptions{Mode: mode})
			if db, err := brock.Open(plainOptions(mem, values)); !errors.Is(err, brock.ErrKey) {
				assert.OK(t, err)
				if got := storetest.ShowContents(t, db); got != want {
					t.Fatalf("fault %d: %.500q", nth, got)
				}
				assert.OK(t, db.Close())
				options.FS = mem
				assert.OK(t, brock.EncryptStore(t.Context(), options))
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
