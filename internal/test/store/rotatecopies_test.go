package store

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/disk/keyring"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/vfs"
)

// TestBackupsAcrossRotateKey makes a full backup and increments while the data key and the master
// key of a store change. Each chain is restored with the key file of the time, and with the
// newest one, as long as that has the master keys of all its backups. Else it is ErrKey.
func TestBackupsAcrossRotateKey(t *testing.T) {
	for _, rewrite := range []bool{false, true} {
		t.Run(fmt.Sprint("Rewrite=", rewrite), func(t *testing.T) {
			p := place{vfs.NewMem(), "/", nil}
			keys := t.TempDir()
			now := filepath.Join(keys, "now")
			must(t, keyring.AppendMasterKey(now, "first"))
			o := p.retaining("store", "values")
			o.Keys = brock.KeyFile(now)
			db, err := brock.Open(o)
			must(t, err)
			defer func() { must(t, db.Close()) }()
			w := newBusy(t, db, 5)
			var streams [][]byte
			var last *brock.BackupInfo
			var wants, then []string
			for round, rotate := range []func() error{
				func() error { return nil },
				func() error { return db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: rewrite}) },
				func() error {
					must(t, keyring.AppendMasterKey(now, "second"))
					return db.RotateKey(t.Context(), brock.RotateOptions{Master: true})
				},
				func() error { return db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: rewrite}) },
				func() error { return nil },
			} {
				must(t, rotate())
				w.steps(t, 40)
				secrets(t, db, round)
				stream, info := backedUp(t, db, brock.BackupOptions{Since: last})
				streams, last = append(streams, stream), info
				wants = append(wants, retained(t, db, 0))
				file := filepath.Join(keys, fmt.Sprint("round", round))
				must(t, os.WriteFile(file, must2(os.ReadFile(now)), 0o600))
				then = append(then, file)
			}
			drawn := draw.Rand(t).IntN(2)
			for i := range streams {
				for j, file := range []string{then[i], now} {
					if !*every && (i+j)%2 != drawn && i+1 < len(streams) {
						continue
					}
					to := p.retaining(fmt.Sprint("new", i, j), "")
					to.Keys = brock.KeyFile(file)
					copied := restored(t, to, wants[i], streams[:i+1]...)
					must(t, copied.RotateKey(t.Context(), brock.RotateOptions{Rewrite: true}))
					same(t, "rewritten", retained(t, copied, 0), wants[i])
				}
			}
			// Without the first master key, only a new full backup can be restored.
			second := filepath.Join(keys, "second")
			lines := bytes.SplitAfter(must2(os.ReadFile(now)), []byte("\n"))
			must(t, os.WriteFile(second, lines[1], 0o600))
			for what, file := range map[string]string{"the second master key only": second, "the first one only": then[0]} {
				to := brock.Options{FS: p.fs, Dir: p.in("refused"), Keys: brock.KeyFile(file)}
				_, err := brock.Restore(t.Context(), bytes.NewReader(bytes.Join(streams, nil)), to)
				wantErr(t, what, err, brock.ErrKey)
				if _, err := p.fs.Stat(p.in("refused")); err == nil {
					t.Errorf("%s: something is left", what)
				}
			}
			full, _ := backedUp(t, db, brock.BackupOptions{})
			to := p.retaining("last", "")
			to.Keys = brock.KeyFile(second)
			restored(t, to, retained(t, db, 0), full)
		})
	}
}

// TestSalvageWhileRewriting saves a store that a crash has left in the middle of a rewriting,
// whole and without SUPER and MANIFEST: files under both data keys count. It has no deletes and
// no large transactions, of which the manifest alone may know.
func TestSalvageWhileRewriting(t *testing.T) {
	mem := vfs.NewMem()
	db, err := brock.Open(keyedOptions(mem, dir))
	must(t, err)
	for round := range 4 {
		for i := range 100 {
			must(t, db.Set(fmt.Appendf(nil, "key %03d", i+20*round), incompressible(i+round, []int{0, 30, 500, 3000, 20000}[i%5])))
		}
		if round < 3 {
			must(t, db.Flush(t.Context()))
		}
	}
	want := contents(t, db)
	begun := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	must(t, db.Close())
	left := crashes(t, begun, func(fs vfs.FS) {
		db, err := brock.Open(keyedOptions(fs, dir))
		must(t, err)
		must(t, db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: true}))
		must(t, db.Close())
	})
	parts := 8
	if testing.Short() {
		parts = 4
	}
	for i := draw.Rand(t).IntN(max(len(left)/parts, 1)); i < len(left); i += max(len(left)/parts, 1) {
		for _, whole := range []bool{true, false} {
			broken := left[i].CrashClone(vfs.CrashOptions{Mode: vfs.All})
			for _, name := range must2(broken.List(dir)) {
				if !whole && (name == "SUPER" || strings.HasPrefix(name, "MANIFEST")) {
					must(t, broken.Remove(filepath.Join(dir, name)))
				}
			}
			to := keyedOptions(vfs.NewMem(), dir)
			reports := 0
			_, err := brock.Salvage(t.Context(), keyedOptions(broken, dir), to, func(*brock.CorruptionError) { reports++ })
			must(t, err)
			saved, err := brock.Open(to)
			must(t, err)
			if got := contents(t, saved); got != want {
				t.Errorf("crash %d of %d, whole %v: other contents, %d reports", i, len(left), whole, reports)
			}
			must(t, saved.Close())
		}
	}
}
