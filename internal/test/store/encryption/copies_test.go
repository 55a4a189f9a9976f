package encryption

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/process"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

func wantSameInfo(t testing.TB, got, want *brock.BackupInfo) {
	t.Helper()
	a, err := got.MarshalBinary()
	assert.OK(t, err)
	b, err := want.MarshalBinary()
	assert.OK(t, err)
	assert.Equal(t, "description", string(a), string(b))
}

// rareIn names the texts of an encrypted store that are in a stream.
func rareIn(stream []byte) (found []string) {
	for _, rare := range []string{rareKey, rareValue, rareName} {
		if bytes.Contains(stream, []byte(rare)) {
			found = append(found, rare)
		}
	}
	return found
}

// TestEncryptedBackup makes backups of an encrypted store, and restores them with its keys. Nothing of the store is in them in clear.
func TestEncryptedBackup(t *testing.T) {
	t.Parallel()
	for _, values := range []string{"", "values"} {
		t.Run("ValueDir="+values, func(t *testing.T) {
			storetest.OnEach(t, func(t *testing.T, p storetest.Place) {
				db, err := brock.Open(p.KeyedOptions("store", values))
				assert.OK(t, err)
				defer func() { assert.OK(t, db.Close()) }()
				w := storetest.NewWorkload(t, db, 3)
				var streams [][]byte
				var last *brock.BackupInfo
				for round := range 4 {
					w.Write(t, 60)
					secrets(t, db, round)
					switch round {
					case 1:
						assert.OK(t, db.Compact(t.Context()))
					case 2:
						assert.Must(db.Reclaim(t.Context()))
					}
					stream, info := storetest.MakeBackup(t, db, brock.BackupOptions{Since: last, Compress: round == 3})
					streams, last = append(streams, stream), info
					if found := rareIn(stream); found != nil {
						t.Errorf("round %d: the stream has %q", round, found)
					}
					storetest.RestoreBackups(t, p.KeyedOptions(fmt.Sprint("new ", round), storetest.NameOtherDir(values, round)), storetest.ShowRetained(t, db, 0), streams...)
					seen, err := brock.VerifyBackup(t.Context(), bytes.NewReader(bytes.Join(streams, nil)))
					assert.OK(t, err)
					wantSameInfo(t, seen, info)
				}
				for _, dir := range []string{"store", "new 3"} {
					if found := inClear(t, p.FS, p.Join(dir)); found != nil {
						t.Errorf("%s: %v", dir, found)
					}
				}
			})
		})
	}
}

// TestBackupBeforeEncryptStore: backups from before EncryptStore and increments from after it are
// restored together, with the keys.
func TestBackupBeforeEncryptStore(t *testing.T) {
	t.Parallel()
	p := storetest.Place{FS: vfs.NewMem(), Dir: "/"}
	o := p.RetainingOptions("store", "values")
	db, err := brock.Open(o)
	assert.OK(t, err)
	secrets(t, db, 0)
	full, info := storetest.MakeBackup(t, db, brock.BackupOptions{})
	storetest.RestoreBackups(t, p.RetainingOptions("plain", ""), storetest.ShowRetained(t, db, 0), full)
	assert.OK(t, db.Close())
	keyed := o
	keyed.Keys = storetest.MasterKey(1)
	assert.OK(t, brock.EncryptStore(t.Context(), keyed))
	db = storetest.OpenExisting(t, keyed)
	secrets(t, db, 1)
	streams := [][]byte{full}
	for round := range 2 {
		inc, next := storetest.MakeBackup(t, db, brock.BackupOptions{Since: info})
		streams, info = append(streams, inc), next
		storetest.RestoreBackups(t, p.KeyedOptions(fmt.Sprint("new ", round), ""), storetest.ShowRetained(t, db, 0), streams...)
		assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: true}))
	}
	_, err = brock.Restore(t.Context(), bytes.NewReader(bytes.Join(streams, nil)), p.RetainingOptions("without", ""))
	assert.Error(t, "without keys", err, brock.ErrKey)
}

// TestEncryptedBackupRefuses restores backups with other keys or none, and cut and changed
// ones: nothing is left.
func TestEncryptedBackupRefuses(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	db, err := brock.Open(storetest.Place{FS: mem, Dir: "/"}.KeyedOptions("store", ""))
	assert.OK(t, err)
	secrets(t, db, 0)
	full, info := storetest.MakeBackup(t, db, brock.BackupOptions{})
	secrets(t, db, 1)
	inc, _ := storetest.MakeBackup(t, db, brock.BackupOptions{Since: info})
	assert.OK(t, db.Close())
	plain := storetest.Open(t, brock.Options{})
	secrets(t, plain, 0)
	clear, _ := storetest.MakeBackup(t, plain, brock.BackupOptions{})
	restore := func(what string, want error, p []byte, keys brock.KeyProvider) {
		t.Helper()
		mem := vfs.NewMem()
		_, err := brock.Restore(t.Context(), bytes.NewReader(p), brock.Options{FS: mem, Dir: "/new", Keys: keys})
		assert.Error(t, what, err, want)
		if _, err := mem.Stat("/new"); err == nil {
			t.Errorf("%s left something", what)
		}
	}
	all := append(bytes.Clone(full), inc...)
	restore("without keys", brock.ErrKey, all, nil)
	restore("with others", brock.ErrKey, all, storetest.MasterKey(2))
	restore("a plain one with keys", brock.ErrKey, clear, storetest.MasterKey(1))
	restore("an increment alone", brock.ErrInvalid, inc, storetest.MasterKey(1))
	_, err = plain.Backup(t.Context(), &bytes.Buffer{}, brock.BackupOptions{Since: info})
	assert.Error(t, "an increment of another store", err, brock.ErrForeign)
	step := 24_999
	switch {
	case *storetest.Every:
		step = 999
	case testing.Short():
		step = 99_999
	}
	i := draw.Rand(t).IntN(step)
	process.LogWhenFailed(t, "byte", &i)
	for ; i < len(all); i += step {
		if i != len(full) {
			restore(fmt.Sprint("cut at ", i), brock.ErrCorrupt, all[:i], storetest.MasterKey(1))
		}
		flipped := bytes.Clone(all)
		flipped[i] ^= 4
		restore(fmt.Sprint("flipped at ", i), brock.ErrCorrupt, flipped, storetest.MasterKey(1))
		_, err := brock.VerifyBackup(t.Context(), bytes.NewReader(flipped))
		assert.Error(t, fmt.Sprint("flipped at ", i), err, brock.ErrCorrupt)
	}
}

// TestEncryptedSalvage saves what is left of encrypted stores. Without SUPER and MANIFEST, the
// headers of files say under which keys they are.
func TestEncryptedSalvage(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	o := storetest.KeyedOptions(mem, "/store")
	db, err := brock.Open(o)
	assert.OK(t, err)
	for round := range 3 {
		secrets(t, db, round)
		if round == 1 {
			assert.Must(db.Reclaim(t.Context()))
		}
	}
	assert.OK(t, db.Compact(t.Context())) // MANIFEST alone says of a large transaction that it was committed
	for i := range 200 {
		assert.OK(t, db.Set(fmt.Appendf(nil, "%s%04d", rareKey, i), append([]byte(rareValue), storetest.RandomBytes(i, i*5)...)))
	}
	want := storetest.ShowContents(t, db)
	assert.OK(t, db.Close())
	kinds := map[string]func(name string) bool{
		"whole":            func(string) bool { return false },
		"without SUPER":    func(name string) bool { return name == "SUPER" },
		"without MANIFEST": func(name string) bool { return strings.HasPrefix(name, "MANIFEST") },
		"without both":     func(name string) bool { return name == "SUPER" || strings.HasPrefix(name, "MANIFEST") },
	}
	for what, gone := range kinds {
		t.Run(what, func(t *testing.T) {
			broken := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
			names, err := broken.List("/store")
			assert.OK(t, err)
			for _, name := range names {
				if gone(name) {
					assert.OK(t, broken.Remove(filepath.Join("/store", name)))
				}
			}
			from := o
			from.FS = broken
			for _, keys := range []brock.KeyProvider{storetest.MasterKey(7), nil} {
				to := brock.Options{FS: vfs.NewMem(), Dir: "/new", Keys: keys}
				_, err := brock.Salvage(t.Context(), from, to, func(c *brock.CorruptionError) {
					if what == "whole" {
						t.Errorf("reported: %v", c)
					}
				})
				assert.OK(t, err)
				saved, err := brock.Open(to)
				assert.OK(t, err)
				if got := storetest.ShowContents(t, saved); got != want {
					assert.SameText(t, what, got, want)
				}
				assert.OK(t, saved.Verify(t.Context(), nil))
				assert.OK(t, saved.Close())
				if found := inClear(t, to.FS, "/new"); (found == nil) != (keys != nil) {
					t.Errorf("in clear: %v", found)
				}
			}
		})
	}
	before := storetest.Place{FS: mem, Dir: "/"}.ShowFiles(t, "store")
	for what, keys := range map[string]brock.KeyProvider{"no keys": nil, "others": storetest.MasterKey(2)} {
		from, to := o, brock.Options{FS: vfs.NewMem(), Dir: "/new"}
		from.Keys = keys
		_, err := brock.Salvage(t.Context(), from, to, nil)
		assert.Error(t, what, err, brock.ErrKey)
		if _, err := to.FS.Stat("/new"); err == nil {
			t.Errorf("%s: something is left", what)
		}
	}
	assert.Equal(t, "the store", storetest.Place{FS: mem, Dir: "/"}.ShowFiles(t, "store"), before)
}

// TestEncryptedSalvageDamage damages files of an encrypted store at random: all that is saved
// was written, and without a report nothing is missing.
func TestEncryptedSalvageDamage(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	o := storetest.KeyedOptions(mem, "/store")
	db, err := brock.Open(o)
	assert.OK(t, err)
	written := map[string][]string{}
	set := func(i, n int) {
		key, value := fmt.Sprintf("%s%03d", rareKey, i), string(storetest.RandomBytes(n, 10+n%4*900))
		written[key] = append(written[key], value)
		assert.OK(t, db.Set([]byte(key), []byte(value)))
	}
	for n := range 600 {
		set(n*7%200, n)
		if n == 400 {
			assert.OK(t, db.Compact(t.Context()))
		}
	}
	assert.OK(t, db.Flush(t.Context()))
	for n := range 100 {
		set(n, 600+n)
	}
	whole := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	assert.OK(t, db.Close())
	names, err := whole.List("/store")
	assert.OK(t, err)
	names = slices.DeleteFunc(names, func(name string) bool { return name == "LOCK" })
	rng := draw.Rand(t)
	kept, lost := 0, 0
	rounds := 60
	switch {
	case *storetest.Every:
		rounds = 1000
	case testing.Short():
		rounds = 20
	}
	for round := range rounds {
		broken := whole.CrashClone(vfs.CrashOptions{Mode: vfs.All})
		for range 1 + rng.IntN(3) {
			f, err := broken.OpenReadWrite(filepath.Join("/store", names[rng.IntN(len(names))]))
			assert.OK(t, err)
			at := rng.Int64N(max(storetest.ReadSize(t, f), 1))
			switch rng.IntN(4) {
			case 0:
				assert.OK(t, f.Truncate(at))
			case 1:
				_, err = f.WriteAt(make([]byte, 3000), at)
			default:
				b := []byte{0}
				_, _ = f.ReadAt(b, at)
				_, err = f.WriteAt([]byte{b[0] ^ 1<<rng.IntN(8)}, at)
			}
			assert.OK(t, errors.Join(err, f.Close()))
		}
		from, to := o, brock.Options{FS: vfs.NewMem(), Dir: "/new", Keys: storetest.MasterKey(7)}
		from.FS = broken
		reports := 0
		_, err := brock.Salvage(t.Context(), from, to, func(*brock.CorruptionError) { reports++ })
		if errors.Is(err, brock.ErrKey) { // both copies of the keyring are gone
			continue
		}
		assert.OK(t, err)
		saved, err := brock.Open(to)
		assert.OK(t, err)
		for key, values := range written {
			got, err := saved.Get([]byte(key))
			switch {
			case errors.Is(err, brock.ErrKeyNotFound):
				lost++
				if reports == 0 {
					t.Errorf("round %d: %q is missing, and nothing says so", round, key)
				}
			case err != nil:
				t.Errorf("round %d: %v", round, err)
			case !slices.Contains(values, string(got)):
				t.Errorf("round %d: %q has a value that it never had", round, key)
			case reports == 0 && string(got) != values[len(values)-1]:
				t.Errorf("round %d: %q is old, and nothing says so", round, key)
			default:
				kept++
			}
		}
		assert.OK(t, saved.Close())
	}
	if t.Logf("%d keys saved, %d lost", kept, lost); kept < 10*lost {
		t.Errorf("%d keys saved, %d lost", kept, lost)
	}
}

// TestValueDirsOfCopies opens a copy of an encrypted store with the directories of another one,
// which has taken new data keys and dropped the old ones: they are foreign, whatever their keys.
func TestValueDirsOfCopies(t *testing.T) {
	t.Parallel()
	storetest.OnEach(t, func(t *testing.T, p storetest.Place) {
		open := func(name, values string) (*brock.DB, error) { return brock.Open(p.KeyedOptions(name, values)) }
		db, err := open("a", "a.values")
		assert.OK(t, err)
		assert.OK(t, db.Set([]byte("key"), bytes.Repeat([]byte("v"), 2000)))
		assert.OK(t, db.Close())
		p.CopyDir(t, "a", "b")
		p.CopyDir(t, "a.values", "b.values")
		db, err = open("a", "a.values") // both copies go on
		assert.OK(t, err)
		assert.OK(t, db.Close())
		for _, rotate := range []bool{false, true} {
			db, err = open("b", "b.values")
			assert.OK(t, err)
			if rotate {
				assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: true}))
			}
			assert.OK(t, db.Close())
			all := []string{"a", "a.values", "b", "b.values"}
			p.CheckRefused(t, "the values of a copy", p.KeyedOptions("a", "b.values"), brock.ErrForeign, all...)
			p.CheckRefused(t, "values of the original", p.KeyedOptions("b", "a.values"), brock.ErrForeign, all...)
			p.CheckRefused(t, "the directory of a copy", p.KeyedOptions("a", "b"), brock.ErrForeign, all...)
		}
		db, err = open("a", "a.values")
		assert.OK(t, err)
		assert.OK(t, db.Close())
	})
}

// TestSalvageLeavesPlainFilesOut: plain files that somebody puts into an encrypted store count for
// nothing, whichever of its own files are gone. They are sound, and of the same store: a copy of it
// was never encrypted, and went on.
func TestSalvageLeavesPlainFilesOut(t *testing.T) {
	t.Parallel()
	for rounds := 2; !plantFiles(t, rounds); rounds++ {
		if rounds == 30 {
			t.Fatal("no file of one store has the name of one of the other")
		}
	}
}

// plantFiles reports whether files of the two stores had the same names. If not, it has shown
// less.
func plantFiles(t *testing.T, rounds int) bool {
	const forged = "forged"
	mem := vfs.NewMem()
	plain := storetest.KeyedOptions(mem, "/store")
	plain.Keys = nil
	write := func(db *brock.DB, rounds int, value string) {
		t.Helper()
		for round := range rounds {
			for i := range 40 {
				assert.OK(t, db.Set(fmt.Appendf(nil, "%04d", i), bytes.Repeat([]byte(value), 10+round%2*200)))
			}
			assert.OK(t, db.Flush(t.Context()))
		}
	}
	db, err := brock.Open(plain)
	assert.OK(t, err)
	write(db, 2, "before")
	assert.OK(t, db.Close())
	evil := plain
	other := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	evil.FS = other
	assert.OK(t, brock.EncryptStore(t.Context(), storetest.KeyedOptions(mem, "/store")))
	db, err = brock.Open(storetest.KeyedOptions(mem, "/store"))
	assert.OK(t, err)
	write(db, rounds, "right")
	assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: true}))
	want := storetest.ShowContents(t, db)
	assert.OK(t, db.Close())
	db, err = brock.Open(evil)
	assert.OK(t, err)
	ours := assert.Must(mem.List("/store"))
	theirs := map[string]string{} // all files that there ever were
	for range 12 {
		write(db, 2, forged)
		assert.OK(t, db.Set([]byte("0000"), []byte(forged)))
		now := other.CrashClone(vfs.CrashOptions{Mode: vfs.All}) // files go in the background
		for _, name := range assert.Must(now.List("/store")) {
			if strings.HasSuffix(name, ".run") || strings.HasSuffix(name, ".val") || strings.HasSuffix(name, ".log") {
				theirs[name] = string(storetest.ReadFile(t, now, filepath.Join("/store", name)))
			}
		}
	}
	assert.OK(t, db.Close())

	for _, replace := range []bool{false, true} {
		for _, gone := range [][]string{nil, {"SUPER"}, {"MANIFEST"}, {"SUPER", "MANIFEST"}} {
			broken := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
			for _, name := range ours {
				if slices.ContainsFunc(gone, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
					assert.OK(t, broken.Remove(filepath.Join("/store", name)))
				}
			}
			put := 0
			for name, content := range theirs {
				if slices.Contains(ours, name) == replace {
					path := filepath.Join("/store", name)
					_ = broken.Remove(path)
					storetest.WriteFile(t, broken, path, content)
					put++
				}
			}
			if put == 0 && replace {
				return false
			}
			from, to := storetest.KeyedOptions(broken, "/store"), brock.Options{FS: vfs.NewMem(), Dir: "/new"}
			_, err := brock.Salvage(t.Context(), from, to, nil)
			assert.OK(t, err)
			saved, err := brock.Open(to)
			assert.OK(t, err)
			got := storetest.ShowContents(t, saved)
			assert.OK(t, saved.Close())
			if strings.Contains(got, forged) || !replace && got != want {
				t.Errorf("%d files, replaced: %v, without %q: %.300q", put, replace, gone, got)
			}
		}
	}
	return true
}

// TestCopiesBeforeRewrite: what EncryptStore leaves plain is in the backups and checkpoints of those
// who only read the store.
func TestCopiesBeforeRewrite(t *testing.T) {
	t.Parallel()
	mem, want := plainStore(t, "")
	o := storetest.KeyedOptions(mem, storetest.Dir)
	assert.OK(t, brock.EncryptStore(t.Context(), o))
	for i, mode := range []brock.OpenMode{brock.ReadOnly, brock.Follow} {
		o.Mode = mode
		db := assert.Must(brock.Open(o))
		stream, _ := storetest.MakeBackup(t, db, brock.BackupOptions{})
		to := fmt.Sprint("/copy", i)
		assert.OK(t, db.Checkpoint(t.Context(), to))
		assert.OK(t, db.Close())
		restored := storetest.KeyedOptions(vfs.NewMem(), storetest.Dir)
		assert.Must(brock.Restore(t.Context(), bytes.NewReader(stream), restored))
		for _, o := range []brock.Options{restored, storetest.KeyedOptions(mem, to)} {
			copied := assert.Must(brock.Open(o))
			assert.SameText(t, "copied", storetest.ShowContents(t, copied), want)
			assert.OK(t, copied.Close())
		}
	}
}

// TestSalvageBeforeRewrite: what EncryptStore leaves plain is saved, as the manifest tells of it.
func TestSalvageBeforeRewrite(t *testing.T) {
	t.Parallel()
	mem, want := plainStore(t, "")
	assert.OK(t, brock.EncryptStore(t.Context(), storetest.KeyedOptions(mem, storetest.Dir)))
	for _, gone := range []string{"LOCK", "SUPER"} {
		assert.OK(t, mem.Remove(filepath.Join(storetest.Dir, gone)))
		to := brock.Options{FS: vfs.NewMem(), Dir: "/new"}
		_, err := brock.Salvage(t.Context(), storetest.KeyedOptions(mem, storetest.Dir), to, nil)
		assert.OK(t, err)
		saved, err := brock.Open(to)
		assert.OK(t, err)
		if got := storetest.ShowContents(t, saved); got != want {
			assert.SameText(t, "without "+gone, got, want)
		}
		assert.OK(t, saved.Close())
	}
}
