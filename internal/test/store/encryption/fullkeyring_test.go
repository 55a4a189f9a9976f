package encryption

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/process"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// maxDataKeys is how many data keys a store can have in use.
const maxDataKeys = 64

// fullOptions let each value lie in a segment of its own, which nothing collects by itself.
func fullOptions(fs vfs.FS) brock.Options {
	o := storetest.KeyedOptions(fs, storetest.Dir)
	o.KeyspaceDefaults.ValueThreshold, o.Maintenance.IdleAfter = 100, time.Hour
	return o
}

// fullKeyring is a store that has as many data keys as there can be, with a value under each.
func fullKeyring(t *testing.T) (mem *vfs.Mem, want string) {
	t.Helper()
	mem = vfs.NewMem()
	db, err := brock.Open(fullOptions(mem))
	assert.OK(t, err)
	for n := range maxDataKeys {
		assert.OK(t, db.Set(fmt.Appendf(nil, "key%02d", n), bytes.Repeat([]byte{byte(n)}, 1000)))
		assert.OK(t, db.Flush(t.Context()))
		if n < maxDataKeys-1 {
			assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{}))
		}
	}
	if n := dataKeys(t, mem, storetest.Dir); n != maxDataKeys {
		t.Fatalf("%d data keys, want %d", n, maxDataKeys)
	}
	want = storetest.ShowContents(t, db)
	assert.OK(t, db.Close())
	return mem, want
}

// TestRotateKeyOfAFullKeyring: without Rewrite there is no room for another data key, and nothing
// changes. What that error says to do is possible. After a crash at any moment it still is.
func TestRotateKeyOfAFullKeyring(t *testing.T) {
	t.Parallel()
	begun, want := fullKeyring(t)
	left := crashes(t, begun, func(fs vfs.FS) {
		db, err := brock.Open(fullOptions(fs))
		assert.OK(t, err)
		assert.Error(t, "another data key", db.RotateKey(t.Context(), brock.RotateOptions{}), brock.ErrInvalid)
		assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: true}))
		assert.OK(t, db.Close())
	})
	stride := max(len(left)/20, 1)
	i := draw.Rand(t).IntN(stride)
	process.LogWhenFailed(t, "crash", &i)
	for ; i < len(left); i += stride {
		mem := left[i]
		for range 2 { // the second time, the keyring is not full
			db, err := brock.Open(fullOptions(mem))
			assert.OK(t, err)
			assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: true}))
			if got := storetest.ShowContents(t, db); got != want {
				t.Fatalf("crash %d: %.500q", i, got)
			}
			assert.OK(t, db.Verify(t.Context(), nil))
			if n, old := dataKeys(t, mem, storetest.Dir), db.Metrics().Tree.OldKeyBytes; n != 1 || old != 0 {
				t.Errorf("crash %d: %d data keys, %d bytes under old ones", i, n, old)
			}
			assert.OK(t, db.Close())
		}
	}
}

// TestFailedRotationsFillNoKeyring: a call that fails may leave a data key that nothing is under.
// However many do, the next one that could succeed does.
func TestFailedRotationsFillNoKeyring(t *testing.T) {
	fs := faultfs.New(vfs.NewMem(), faultfs.Options{})
	options := storetest.KeyedOptions(fs, storetest.Dir)
	db, err := brock.Open(options)
	assert.OK(t, err)
	secrets(t, db, 1)
	want := storetest.ShowContents(t, db)
	for range maxDataKeys + 5 {
		fs.Inject(faultfs.Fault{Kinds: faultfs.Write, Path: "MANIFEST", Err: faultfs.ErrNoSpace, Short: true})
		assert.Error(t, "a full disk", db.RotateKey(t.Context(), brock.RotateOptions{}), brock.ErrNoSpace)
		fs.Heal()
	}
	assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{}))
	assert.OK(t, db.Close())
	db, err = brock.Open(options)
	assert.OK(t, err)
	if got := storetest.ShowContents(t, db); got != want {
		t.Errorf("contents %.500q", got)
	}
	assert.OK(t, db.Close())
}
