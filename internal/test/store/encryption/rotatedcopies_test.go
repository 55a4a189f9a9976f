package encryption

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/disk/keyring"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestBackupsAcrossRotateKey makes a full backup and increments while the data key and the master
// key of a store change. Each chain is restored with the key file of the time, and with the
// newest one, as long as that has the master keys of all its backups. Else it is ErrKey.
func TestBackupsAcrossRotateKey(t *testing.T) {
	t.Parallel()
	for _, rewrite := range []bool{false, true} {
		t.Run(fmt.Sprint("Rewrite=", rewrite), func(t *testing.T) {
			p := storetest.Place{FS: vfs.NewMem(), Dir: "/"}
			keys := t.TempDir()
			now := filepath.Join(keys, "now")
			assert.OK(t, keyring.AppendMasterKey(now, "first"))
			o := p.RetainingOptions("store", "values")
			o.Keys = brock.KeyFile(now)
			db, err := brock.Open(o)
			assert.OK(t, err)
			defer func() { assert.OK(t, db.Close()) }()
			w := storetest.NewWorkload(t, db, 5)
			var streams [][]byte
			var last *brock.BackupInfo
			var wants, then []string
			for round, rotate := range []func() error{
				func() error { return nil },
				func() error { return db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: rewrite}) },
				func() error {
					assert.OK(t, keyring.AppendMasterKey(now, "second"))
					return db.RotateKey(t.Context(), brock.RotateOptions{Master: true})
				},
				func() error { return db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: rewrite}) },
				func() error { return nil },
			} {
				assert.OK(t, rotate())
				w.Write(t, 40)
				secrets(t, db, round)
				stream, info := storetest.MakeBackup(t, db, brock.BackupOptions{Since: last})
				streams, last = append(streams, stream), info
				wants = append(wants, storetest.ShowRetained(t, db, 0))
				file := filepath.Join(keys, fmt.Sprint("round", round))
				assert.OK(t, os.WriteFile(file, assert.Must(os.ReadFile(now)), 0o600))
				then = append(then, file)
			}
			drawn := draw.Rand(t).IntN(2)
			for i := range streams {
				for j, file := range []string{then[i], now} {
					if !*storetest.Every && (i+j)%2 != drawn && i+1 < len(streams) {
						continue
					}
					to := p.RetainingOptions(fmt.Sprint("new", i, j), "")
					to.Keys = brock.KeyFile(file)
					copied := storetest.RestoreBackups(t, to, wants[i], streams[:i+1]...)
					assert.OK(t, copied.RotateKey(t.Context(), brock.RotateOptions{Rewrite: true}))
					assert.SameText(t, "rewritten", storetest.ShowRetained(t, copied, 0), wants[i])
				}
			}
			// Without the first master key, only a new full backup can be restored.
			second := filepath.Join(keys, "second")
			lines := bytes.SplitAfter(assert.Must(os.ReadFile(now)), []byte("\n"))
			assert.OK(t, os.WriteFile(second, lines[1], 0o600))
			for what, file := range map[string]string{"the second master key only": second, "the first one only": then[0]} {
				to := brock.Options{FS: p.FS, Dir: p.Join("refused"), Keys: brock.KeyFile(file)}
				_, err := brock.Restore(t.Context(), bytes.NewReader(bytes.Join(streams, nil)), to)
				assert.Error(t, what, err, brock.ErrKey)
				if _, err := p.FS.Stat(p.Join("refused")); err == nil {
					t.Errorf("%s: something is left", what)
				}
			}
			full, _ := storetest.MakeBackup(t, db, brock.BackupOptions{})
			to := p.RetainingOptions("last", "")
			to.Keys = brock.KeyFile(second)
			storetest.RestoreBackups(t, to, storetest.ShowRetained(t, db, 0), full)
		})
	}
}

// TestSalvageWhileRewriting saves a store that a crash has left in the middle of a rewriting,
// whole and without SUPER and MANIFEST: files under both data keys count. It has no deletes and
// no large transactions, of which the manifest alone may know.
func TestSalvageWhileRewriting(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	db, err := brock.Open(storetest.KeyedOptions(mem, storetest.Dir))
	assert.OK(t, err)
	for round := range 4 {
		for i := range 100 {
			assert.OK(t, db.Set(fmt.Appendf(nil, "key %03d", i+20*round), storetest.RandomBytes(i+round, []int{0, 30, 500, 3000, 20000}[i%5])))
		}
		if round < 3 {
			assert.OK(t, db.Flush(t.Context()))
		}
	}
	want := storetest.ShowContents(t, db)
	begun := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	assert.OK(t, db.Close())
	left := crashes(t, begun, func(fs vfs.FS) {
		db, err := brock.Open(storetest.KeyedOptions(fs, storetest.Dir))
		assert.OK(t, err)
		assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: true}))
		assert.OK(t, db.Close())
	})
	parts := 8
	if testing.Short() {
		parts = 4
	}
	for i := draw.Rand(t).IntN(max(len(left)/parts, 1)); i < len(left); i += max(len(left)/parts, 1) {
		for _, whole := range []bool{true, false} {
			broken := left[i].CrashClone(vfs.CrashOptions{Mode: vfs.All})
			for _, name := range assert.Must(broken.List(storetest.Dir)) {
				if !whole && (name == "SUPER" || strings.HasPrefix(name, "MANIFEST")) {
					assert.OK(t, broken.Remove(filepath.Join(storetest.Dir, name)))
				}
			}
			to := storetest.KeyedOptions(vfs.NewMem(), storetest.Dir)
			reports := 0
			_, err := brock.Salvage(t.Context(), storetest.KeyedOptions(broken, storetest.Dir), to, func(*brock.CorruptionError) { reports++ })
			assert.OK(t, err)
			saved, err := brock.Open(to)
			assert.OK(t, err)
			if got := storetest.ShowContents(t, saved); got != want {
				t.Errorf("crash %d of %d, whole %v: other contents, %d reports", i, len(left), whole, reports)
			}
			assert.OK(t, saved.Close())
		}
	}
}
