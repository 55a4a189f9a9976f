package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/vfs"
)

// masterKey is one of the master keys of tests.
func masterKey(n byte) brock.KeyProvider { return brock.StaticKey(bytes.Repeat([]byte{n}, 32)) }

// Rare bytes that keys, values and names of keyspaces begin with, so that they are found
// wherever they lie in clear.
const (
	rareKey   = "\xf3\x9ckEy~Q"
	rareValue = "\xe7\xa1vAl~Z"
	rareName  = "nAmE~\xce\xa9"
)

// inClear names the files of a store that hold one of the rare texts.
func inClear(t *testing.T, fs vfs.FS, dir string) (found []string) {
	t.Helper()
	names, err := fs.List(dir)
	must(t, err)
	for _, name := range names {
		f, err := fs.Open(filepath.Join(dir, name))
		if errors.Is(err, iofs.ErrNotExist) {
			continue // background work has removed it just now
		}
		must(t, err)
		p := make([]byte, size(t, f))
		_, err = f.ReadAt(p, 0)
		must(t, errors.Join(err, f.Close()))
		for _, rare := range []string{rareKey, rareValue, rareName} {
			if bytes.Contains(p, []byte(rare)) {
				found = append(found, fmt.Sprintf("%s has %q", name, rare))
			}
		}
	}
	return found
}

// secrets writes and deletes values of all sizes in two keyspaces, in all kinds of files: the
// round n of them.
func secrets(t *testing.T, db *brock.DB, n int) {
	t.Helper()
	ks := keyspace(t, db, rareName, brock.KeyspaceOptions{})
	value := func(i, size int) []byte { return append([]byte(rareValue), incompressible(i, size)...) }
	key := func(i int) []byte { return fmt.Appendf(nil, "%s%04d", rareKey, i) }
	for i := range 60 {
		must(t, db.Set(key(i+20*n), value(i+n, []int{0, 30, 500, 3000, 20000}[i%5])))
		must(t, ks.Set(key(i+10*n), value(i, 200*(i%3))))
	}
	must(t, db.Set(key(9000+n), value(n, 200_000))) // in pieces
	txn, err := db.Begin(t.Context(), brock.TxnOptions{Update: true, MaxMemory: 1000})
	must(t, err)
	for i := range 60 {
		must(t, txn.Set(key(1000+i), value(i*n, 10+40*(i%20))))
	}
	must(t, txn.Commit())
	must(t, db.DeleteRange(key(20*n), key(20*n+5)))
	must(t, db.Delete(key(20*n+7)))
}

func keyedOptions(fs vfs.FS, dir string) brock.Options {
	return brock.Options{Dir: dir, FS: fs, Keys: masterKey(1), Tuning: brock.Tuning{MemtableSize: 64 << 10, SegmentSize: 256 << 10}}
}

// TestEncryptedStore: an encrypted store does what a plain one does, in each kind of file,
// and no file ever holds a key, a value or the name of a keyspace.
func TestEncryptedStore(t *testing.T) {
	mem := vfs.NewMem()
	plain := openTest(t, brock.Options{})
	o := keyedOptions(vfs.NewMem(), dir)
	o.Keys = nil
	db, err := brock.Open(o)
	must(t, err)
	secrets(t, db, 1)
	must(t, db.Close())
	if found := inClear(t, o.FS, dir); len(found) < 3 {
		t.Fatalf("the search finds only %q in a plain store", found)
	}
	check := func(what string) {
		t.Helper()
		if got, want := contents(t, db), contents(t, plain); got != want {
			t.Fatalf("%s: the encrypted store differs from the plain one:\n%.2000q\nwant\n%.2000q", what, got, want)
		}
		if found := inClear(t, mem, dir); found != nil {
			t.Fatalf("%s: %v", what, found)
		}
		must(t, db.Verify(t.Context(), func(c *brock.CorruptionError) { t.Errorf("%s: %v", what, c) }))
	}
	db, err = brock.Open(keyedOptions(mem, dir))
	must(t, err)
	for round := range 4 {
		secrets(t, db, round)
		secrets(t, plain, round)
		check("written")
		killed := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
		switch round {
		case 0, 3:
			must(t, db.Close())
		default:
			must(t, db.Flush(t.Context()))
			check("flushed")
			must(t, db.Compact(t.Context()))
			must2(db.Reclaim(t.Context()))
			check("compacted and collected")
			must(t, db.Close())
			mem = killed // so the files above are lost, and the journal is replayed
		}
		db, err = brock.Open(keyedOptions(mem, dir))
		must(t, err)
		check("opened again")
		must(t, db.Compact(t.Context()))
		must2(db.Reclaim(t.Context()))
		check("compacted and collected")
	}
	copied := filepath.Join(filepath.Dir(dir), "copy")
	must(t, db.Checkpoint(t.Context(), copied))
	must(t, db.Close())
	if found := inClear(t, mem, copied); found != nil {
		t.Fatalf("checkpoint: %v", found)
	}
	for _, o := range []brock.Options{keyedOptions(mem, copied), keyedOptions(mem, dir)} {
		for _, o.Mode = range []brock.OpenMode{brock.ReadOnly, brock.Follow, brock.ReadWrite} {
			db, err = brock.Open(o)
			must(t, err)
			check(fmt.Sprintf("%s, mode %d", o.Dir, o.Mode))
			must(t, db.Close())
		}
	}
}

// TestErrKey: a store that is refused for its keys is left as it was, and so is a plain one
// that is opened with keys.
func TestErrKey(t *testing.T) {
	encrypted := func(t *testing.T) *vfs.Mem {
		mem := vfs.NewMem()
		db, err := brock.Open(brock.Options{Dir: dir, FS: mem, Keys: masterKey(1)})
		must(t, err)
		set(t, db, "a=1")
		return mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	}
	keyring := filepath.Join(dir, "KEYS-000001")
	for name, c := range map[string]struct {
		prepare func(t *testing.T) *vfs.Mem
		keys    brock.KeyProvider
	}{
		"no keys":           {encrypted, nil},
		"another key":       {encrypted, masterKey(2)},
		"keys for a plain":  {killed, masterKey(1)},
		"a missing keyring": {func(t *testing.T) *vfs.Mem { m := encrypted(t); must(t, m.Remove(keyring)); return m }, masterKey(1)},
		"the keyring of another store": {func(t *testing.T) *vfs.Mem {
			m, other := encrypted(t), encrypted(t)
			p := readFile(t, other, keyring)
			must(t, m.Remove(keyring))
			writeFile(t, m, keyring, string(p))
			return m
		}, masterKey(1)},
	} {
		for _, mode := range []brock.OpenMode{brock.ReadWrite, brock.ReadOnly, brock.Follow} {
			t.Run(fmt.Sprintf("%s, mode %d", name, mode), func(t *testing.T) {
				mem := c.prepare(t)
				before := withoutLock(content(t, mem))
				db, err := brock.Open(brock.Options{Dir: dir, FS: mem, Keys: c.keys, Mode: mode})
				if err == nil {
					db.Close()
				}
				wantErr(t, "Open", err, brock.ErrKey)
				if after := withoutLock(content(t, mem)); after != before {
					t.Errorf("the directory was changed from\n%s\nto\n%s", before, after)
				}
			})
		}
	}
	t.Run("a key of another length", func(t *testing.T) {
		mem := vfs.NewMem()
		_, err := brock.Open(brock.Options{Dir: dir, FS: mem, Keys: brock.StaticKey(make([]byte, 31))})
		wantErr(t, "Open", err, brock.ErrInvalid)
	})
}

// crashes calls fn, and returns what a crash before each call that changes files, and at the
// end, leaves in the ways that modes say.
func crashes(t *testing.T, mem *vfs.Mem, fn func(fs vfs.FS)) (left []*vfs.Mem) {
	var mu sync.Mutex
	take := func() {
		for mode := range vfs.Chaos + 1 {
			left = append(left, mem.CrashClone(vfs.CrashOptions{Mode: mode, Seed: uint64(len(left))}))
		}
	}
	fn(faultfs.New(mem, faultfs.Options{Before: func(op faultfs.Op) {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind&(faultfs.Changes|faultfs.Syncs) != 0 {
			take()
		}
	}}))
	mu.Lock()
	defer mu.Unlock()
	take()
	return left
}

// TestEncryptedCreationCrashes crashes before each file call of creating and of opening: the
// next Open makes the store, or finds it with what was durable.
func TestEncryptedCreationCrashes(t *testing.T) {
	open := func(fs vfs.FS) *brock.DB {
		db, err := brock.Open(keyedOptions(fs, dir))
		must(t, err)
		return db
	}
	for i, mem := range crashes(t, vfs.NewMem(), func(fs vfs.FS) { must(t, open(fs).Close()) }) {
		if testing.Short() && i%3 != 0 {
			continue
		}
		db := open(mem)
		wantEqual(t, "created", contents(t, db), "")
		set(t, db, "a=1")
		must(t, db.Close())
		if names := must2(mem.List(dir)); strings.Count(strings.Join(names, " "), "KEYS-") != 1 {
			t.Errorf("crash %d: %v", i, names)
		}
	}
	begun := vfs.NewMem()
	db := open(begun)
	secrets(t, db, 1)
	want := contents(t, db)
	begun = begun.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	must(t, db.Close())
	for i, mem := range crashes(t, begun, func(fs vfs.FS) { must(t, open(fs).Close()) }) {
		if testing.Short() && i%7 != 0 {
			continue
		}
		db := open(mem)
		if got := contents(t, db); got != want {
			t.Errorf("crash %d: %.500q", i, got)
		}
		must(t, db.Close())
	}
}

// TestCopiesOfAnEncryptedStore: two copies of a directory that both go on, from the same
// state and with the same numbers of files, never encrypt under one key and nonce (builds
// with the tag invariants watch), and a file of one is damage in the other.
func TestCopiesOfAnEncryptedStore(t *testing.T) {
	mem := vfs.NewMem()
	db, err := brock.Open(keyedOptions(mem, dir))
	must(t, err)
	secrets(t, db, 1)
	stores := [2]*vfs.Mem{mem.CrashClone(vfs.CrashOptions{Mode: vfs.All}), mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})}
	must(t, db.Close())
	for i, mem := range stores {
		db, err := brock.Open(keyedOptions(mem, dir))
		must(t, err)
		secrets(t, db, 2+i)
		must(t, db.Flush(t.Context()))
		secrets(t, db, 3+i)
		must(t, db.Close())
	}
	swapped := 0
	for _, name := range must2(stores[0].List(dir)) {
		path := filepath.Join(dir, name)
		p, q := readFile(t, stores[0], path), []byte(nil)
		if _, err := stores[1].Stat(path); err == nil {
			q = readFile(t, stores[1], path)
		}
		if q == nil || bytes.Equal(p, q) || name == "SUPER" || strings.HasPrefix(name, "MANIFEST") {
			continue
		}
		swapped++
		mixed := stores[0].CrashClone(vfs.CrashOptions{Mode: vfs.All})
		must(t, mixed.Remove(path))
		writeFile(t, mixed, path, string(q))
		db, err := brock.Open(keyedOptions(mixed, dir))
		if err == nil {
			err = db.Verify(t.Context(), nil)
			err = errors.Join(err, db.Close())
		}
		if !errors.Is(err, brock.ErrCorrupt) {
			t.Errorf("%s of the other copy: %v", name, err)
		}
	}
	if swapped < 2 {
		t.Errorf("only %d files were swapped", swapped)
	}
}

// TestVerifyReadsTheKeyring: one damaged copy in the keyring keeps no store from being opened,
// and Verify tells of it.
func TestVerifyReadsTheKeyring(t *testing.T) {
	mem := vfs.NewMem()
	db, err := brock.Open(keyedOptions(mem, dir))
	must(t, err)
	set(t, db, "a=1")
	must(t, db.Close())
	edit(t, mem, filepath.Join(dir, "KEYS-000001"), func(p []byte) { p[len(p)/2+60] ^= 1 })
	db, err = brock.Open(keyedOptions(mem, dir))
	must(t, err)
	defer db.Close()
	var found []string
	_ = db.Verify(t.Context(), func(c *brock.CorruptionError) { found = append(found, c.File) })
	wantEqual(t, "damaged files", fmt.Sprint(found), "[KEYS-000001]")
	wantErr(t, "Verify", db.Verify(t.Context(), nil), brock.ErrCorrupt)
}

// TestStrangersKeyrings: a file that only has the name of a keyring, or that is the keyring of
// another store, is not removed.
func TestStrangersKeyrings(t *testing.T) {
	mem := vfs.NewMem()
	first, zero := filepath.Join(dir, "KEYS-000001"), filepath.Join(dir, "KEYS-000000")
	writeFile(t, mem, first, "a list of keys to buy")
	_, err := brock.Open(keyedOptions(mem, dir))
	wantErr(t, "Open", err, brock.ErrCorrupt)
	wantEqual(t, "the stranger", string(readFile(t, mem, first)), "a list of keys to buy")
	must(t, mem.Remove(first))
	writeFile(t, mem, first, "BROCK") // as a crash leaves it
	for _, stranger := range []string{"a list of keys to buy", "BROCKKEY" + strings.Repeat("another store ", 1000)} {
		db, err := brock.Open(keyedOptions(mem, dir))
		must(t, errors.Join(err, db.Close()))
		writeFile(t, mem, zero, stranger)
		db, err = brock.Open(keyedOptions(mem, dir))
		must(t, errors.Join(err, db.Close()))
		wantEqual(t, "the stranger", string(readFile(t, mem, zero)), stranger)
		must(t, mem.Remove(zero))
	}
}

// panicky is a provider whose UnwrapKey panics.
type panicky struct{ brock.KeyProvider }

func (panicky) UnwrapKey(context.Context, []byte, []byte) ([]byte, error) { panic("no service") }

// TestProviderPanics: the panic goes on to the caller of Open, and the store is free after it.
func TestProviderPanics(t *testing.T) {
	o := keyedOptions(vfs.OS(), t.TempDir())
	for _, when := range []string{"creating", "opening"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error(when, "the panic was lost")
				}
			}()
			bad := o
			bad.Keys = panicky{o.Keys}
			_, _ = brock.Open(bad)
		}()
		db, err := brock.Open(o)
		must(t, err)
		must(t, db.Close())
	}
}

// TestEncryptedCreationFails has each file call of a creation fail: the next Open makes the
// store, whatever is left.
func TestEncryptedCreationFails(t *testing.T) {
	failed := 0
	for nth := 1; nth < 40; nth++ {
		mem := vfs.NewMem()
		faulty := faultfs.New(mem, faultfs.Options{})
		faulty.Inject(faultfs.Fault{Kinds: faultfs.Changes | faultfs.Syncs, Nth: nth, Err: faultfs.ErrNoSpace})
		db, err := brock.Open(keyedOptions(faulty, dir))
		if err == nil {
			err = db.Close()
		} else {
			failed++
		}
		after, again := brock.Open(keyedOptions(mem, dir))
		if again != nil {
			t.Fatalf("call %d failed (%v), and then Open: %v", nth, err, again)
		}
		set(t, after, "a=1")
		must(t, after.Close())
		if names := must2(mem.List(dir)); strings.Count(strings.Join(names, " "), "KEYS-") != 1 {
			t.Errorf("call %d: %v", nth, names)
		}
	}
	if failed < 8 {
		t.Errorf("only %d calls kept the store from being made", failed)
	}
}

// hanging is a provider that doesn't answer before free is closed, whatever its context says.
type hanging struct {
	brock.KeyProvider
	asked func()
	free  chan struct{}
}

func (h hanging) WrapKey(ctx context.Context, key, binding []byte) ([]byte, error) {
	h.asked()
	<-h.free
	return h.KeyProvider.WrapKey(ctx, key, binding)
}

func (h hanging) UnwrapKey(ctx context.Context, wrapped, binding []byte) ([]byte, error) {
	h.asked()
	<-h.free
	return h.KeyProvider.UnwrapKey(ctx, wrapped, binding)
}

// TestProviderHangs: each call that asks for keys returns when its context ends. Then the store is
// free, what was to be made is not there, and an answer that comes later changes nothing.
func TestProviderHangs(t *testing.T) {
	p := place{vfs.OS(), t.TempDir(), os.Rename}
	db, err := brock.Open(p.keyed("store", ""))
	must(t, err)
	secrets(t, db, 1)
	stream, _ := backedUp(t, db, brock.BackupOptions{})
	want := contents(t, db)
	must(t, db.Close())
	plain := p.keyed("plain", "")
	plain.Keys = nil
	db, err = brock.Open(plain)
	must(t, err)
	must(t, db.Close())
	open := func(ctx context.Context, o brock.Options) error {
		db, err := brock.OpenContext(ctx, o)
		if err == nil {
			return errors.Join(errors.New("opened"), db.Close())
		}
		return err
	}
	free := make(chan struct{})
	for name, call := range map[string]func(ctx context.Context, keys brock.KeyProvider) error{
		"create": func(ctx context.Context, keys brock.KeyProvider) error {
			o := p.keyed("new", "")
			o.Keys = keys
			return open(ctx, o)
		},
		"open": func(ctx context.Context, keys brock.KeyProvider) error {
			o := p.keyed("store", "")
			o.Keys = keys
			return open(ctx, o)
		},
		"EncryptStore": func(ctx context.Context, keys brock.KeyProvider) error {
			o := plain
			o.Keys = keys
			return brock.EncryptStore(ctx, o)
		},
		"RotateKey": func(ctx context.Context, keys brock.KeyProvider) error {
			db, err := brock.Open(p.keyed("store", ""))
			must(t, err)
			return errors.Join(db.RotateKey(ctx, brock.RotateOptions{Keys: keys}), db.Close())
		},
		"Restore": func(ctx context.Context, keys brock.KeyProvider) error {
			o := p.keyed("restored", "")
			o.Keys = keys
			_, err := brock.Restore(ctx, bytes.NewReader(stream), o)
			return err
		},
		"Salvage": func(ctx context.Context, keys brock.KeyProvider) error {
			o := p.keyed("store", "")
			o.Keys = keys
			_, err := brock.Salvage(ctx, o, p.keyed("salvaged", ""), nil)
			return err
		},
		"Salvage to": func(ctx context.Context, keys brock.KeyProvider) error {
			o := p.keyed("salvaged", "")
			o.Keys = keys
			_, err := brock.Salvage(ctx, p.keyed("store", ""), o, nil)
			return err
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		err := call(ctx, hanging{masterKey(1), cancel, free})
		wantErr(t, name, err, context.Canceled)
		if errors.Is(err, brock.ErrKey) {
			t.Errorf("%s: %v, as if the key were wrong", name, err)
		}
		cancel()
	}
	check := func(when string) {
		t.Helper()
		db, err := brock.Open(p.keyed("store", ""))
		must(t, err)
		if got := contents(t, db); got != want {
			t.Errorf("%s: %.300q", when, got)
		}
		must(t, db.Close())
		db, err = brock.Open(plain)
		must(t, err)
		must(t, db.Close())
		for _, dir := range []string{"restored", "salvaged"} {
			if _, err := p.fs.Stat(p.in(dir)); err == nil {
				t.Errorf("%s: %s is there", when, dir)
			}
		}
	}
	check("while providers hang")
	close(free)
	check("after their answers")
	db, err = brock.Open(p.keyed("new", ""))
	must(t, err)
	must(t, db.Close())
}

// TestRefreshWhileAProviderHangs: Refresh of a follower returns when its context ends, and the next
// one succeeds.
func TestRefreshWhileAProviderHangs(t *testing.T) {
	p := place{vfs.OS(), t.TempDir(), os.Rename}
	db, err := brock.Open(p.keyed("store", ""))
	must(t, err)
	defer func() { must(t, db.Close()) }()
	ctx, cancel := context.WithCancel(t.Context())
	free, gate := make(chan struct{}), make(chan struct{})
	close(free)
	var hangs atomic.Bool
	asked := func() {
		if hangs.Load() {
			cancel()
			<-gate
		}
	}
	o := p.keyed("store", "")
	o.Mode, o.Keys = brock.Follow, hanging{masterKey(1), asked, free}
	follower, err := brock.Open(o)
	if errors.Is(err, brock.ErrUnsupported) {
		t.Skip(err)
	}
	must(t, err)
	defer func() { must(t, follower.Close()) }()
	hangs.Store(true)
	must(t, db.RotateKey(t.Context(), brock.RotateOptions{}))
	must(t, db.Set(b("new"), b("1")))
	must(t, db.Sync(t.Context()))
	_, err = follower.Refresh(ctx)
	wantErr(t, "Refresh", err, context.Canceled)
	close(gate)
	must2(follower.Refresh(t.Context()))
	if got, err := follower.Get(b("new")); err != nil || string(got) != "1" {
		t.Errorf("read %q, %v", got, err)
	}
}

// TestVerifyWhileAProviderHangs: Verify of a follower asks for keys that the writer has added. It
// returns when its context ends, and when the follower is closed.
func TestVerifyWhileAProviderHangs(t *testing.T) {
	for name, end := range map[string]func(cancel func(), follower *brock.DB){
		"context": func(cancel func(), _ *brock.DB) { cancel() },
		"close":   func(_ func(), follower *brock.DB) { go follower.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			p := place{vfs.OS(), t.TempDir(), os.Rename}
			db, err := brock.Open(p.keyed("store", ""))
			must(t, err)
			defer func() { must(t, db.Close()) }()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			free, gate := make(chan struct{}), make(chan struct{})
			close(free)
			var hangs atomic.Bool
			var follower *brock.DB
			asked := func() {
				if hangs.Load() {
					end(cancel, follower)
					<-gate
				}
			}
			o := p.keyed("store", "")
			o.Mode, o.Keys = brock.Follow, hanging{masterKey(1), asked, free}
			follower, err = brock.Open(o)
			if errors.Is(err, brock.ErrUnsupported) {
				t.Skip(err)
			}
			must(t, err)
			defer func() { must(t, follower.Close()) }()
			hangs.Store(true)
			must(t, db.RotateKey(t.Context(), brock.RotateOptions{}))
			verified := make(chan error, 1)
			go func() { verified <- follower.Verify(ctx, nil) }()
			err = deadline.Receive(t, "Verify ends while the provider hangs", verified)
			close(gate)
			if name == "close" {
				wantErr(t, "Verify", err, brock.ErrClosed)
				return
			}
			wantErr(t, "Verify", err, context.Canceled)
			hangs.Store(false)
			must(t, follower.Verify(t.Context(), nil))
		})
	}
}
