package keyring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/vfs"
)

func master(b byte) Provider {
	key := make([]byte, masterSize)
	key[0] = b
	return StaticKey(key)
}

func optionsOf(fsys vfs.FS, p Provider) Options {
	return Options{FS: fsys, Dir: "db", UUID: testUUID, Keys: p, Created: 1}
}

func newMem(t testing.TB) *vfs.Mem {
	mem := vfs.NewMem()
	if err := errors.Join(mem.MkdirAll("db"), mem.SyncDir(".")); err != nil {
		t.Fatal(err)
	}
	return mem
}

// sealed is a unit that was encrypted under the current data key of a Ring.
type sealed struct {
	text  []byte
	tag   crypt.Tag
	keyID crypt.FileKeyID
}

var unitFile = crypt.File{UUID: testUUID, Kind: 'S'}

func encrypt(t testing.TB, r *crypt.Ring) *sealed {
	t.Helper()
	l := &sealed{text: append(make([]byte, 0, 64), "something"...)}
	var err error
	if l.tag, l.keyID, err = r.EncryptOnce(l.text, l.text, unitFile, crypt.Slot, 0, nil); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *sealed) decrypt(r *crypt.Ring) error {
	dst := make([]byte, len(l.text))
	if err := r.DecryptOnce(dst, append(make([]byte, 0, 64), l.text...), &l.tag, unitFile, l.keyID, crypt.Slot, 0, nil); err != nil {
		return err
	}
	if string(dst) != "something" {
		return fmt.Errorf("decrypted to %q", dst)
	}
	return nil
}

func TestKeyring(t *testing.T) {
	mem := newMem(t)
	if _, err := Open(optionsOf(mem, master(1))); !errors.Is(err, errs.ErrKey) {
		t.Fatalf("without a file: %v", err)
	}
	k, err := Create(optionsOf(mem, master(1)))
	if err != nil {
		t.Fatal(err)
	}
	first := encrypt(t, k.Ring())
	follower, err := Open(optionsOf(mem, master(1)))
	if err != nil {
		t.Fatal(err)
	}
	id, err := k.Add(t.Context(), nil, 2)
	if err == nil {
		err = k.Ring().SetCurrent(id)
	}
	if err != nil {
		t.Fatal(err)
	}
	second := encrypt(t, k.Ring())
	if first.keyID.Key == second.keyID.Key || second.keyID.Key != id {
		t.Fatal("the new data key isn't current")
	}
	// A follower reads the file again for the key that it doesn't know.
	if err := errors.Join(first.decrypt(follower.Ring()), second.decrypt(follower.Ring())); err != nil {
		t.Error(err)
	}

	for i, wrong := range []Provider{master(2), StaticKey([]byte("short")), StaticKey(nil)} {
		other, err := Open(optionsOf(mem, wrong))
		if err != nil {
			t.Fatal(err)
		}
		if err := first.decrypt(other.Ring()); !errors.Is(err, errs.ErrKey) || i > 0 != errors.Is(err, errs.ErrInvalid) {
			t.Errorf("provider %d: %v", i, err)
		}
	}

	if err := k.Keep(func(crypt.ID) bool { return false }); err != nil {
		t.Fatal(err)
	}
	if names, _ := mem.List("db"); !slices.Equal(names, []string{"KEYS-000003"}) {
		t.Errorf("files %q", names)
	}
	again, err := Open(optionsOf(mem, master(1)))
	if err != nil {
		t.Fatal(err)
	}
	if err := first.decrypt(again.Ring()); !errors.Is(err, errs.ErrKey) {
		t.Errorf("under a key that was removed: %v", err)
	}
	if err := second.decrypt(again.Ring()); err != nil {
		t.Error(err)
	}
}

// TestAnotherProvider: with another provider, all keys are wrapped by it.
func TestAnotherProvider(t *testing.T) {
	mem := newMem(t)
	k, err := Create(optionsOf(mem, master(1)))
	if err != nil {
		t.Fatal(err)
	}
	l := encrypt(t, k.Ring())
	if _, err := k.Add(t.Context(), master(2), 0); err != nil {
		t.Fatal(err)
	}
	for b, want := range map[byte]bool{1: false, 2: true} {
		again, err := Open(optionsOf(mem, master(b)))
		if err != nil {
			t.Fatal(err)
		}
		if err := l.decrypt(again.Ring()); (err == nil) != want {
			t.Errorf("provider %d: %v", b, err)
		}
	}
}

// badProvider changes what another one says.
type badProvider struct {
	Provider
	wrap, unwrap func([]byte) ([]byte, error)
}

func (b badProvider) WrapKey(ctx context.Context, key, binding []byte) ([]byte, error) {
	p, err := b.Provider.WrapKey(ctx, key, binding)
	if err == nil && b.wrap != nil {
		return b.wrap(p)
	}
	return p, err
}

func (b badProvider) UnwrapKey(ctx context.Context, wrapped, binding []byte) ([]byte, error) {
	p, err := b.Provider.UnwrapKey(ctx, wrapped, binding)
	if err == nil && b.unwrap != nil {
		return b.unwrap(p)
	}
	return p, err
}

// TestBadProviders: a key that can't be unwrapped again is not taken into use.
func TestBadProviders(t *testing.T) {
	failed := errors.New("no answer")
	for name, p := range map[string]badProvider{
		"empty":   {wrap: func([]byte) ([]byte, error) { return nil, nil }},
		"long":    {wrap: func([]byte) ([]byte, error) { return make([]byte, maxWrapped+1), nil }},
		"zeros":   {wrap: func([]byte) ([]byte, error) { return make([]byte, 100), nil }},
		"failing": {wrap: func([]byte) ([]byte, error) { return nil, failed }},
		"short":   {unwrap: func(p []byte) ([]byte, error) { return p[1:], nil }},
		"other":   {unwrap: func(p []byte) ([]byte, error) { return make([]byte, len(p)), nil }},
		"forgets": {unwrap: func(p []byte) ([]byte, error) { return nil, failed }},
	} {
		mem := newMem(t)
		p.Provider = master(1)
		if _, err := Create(optionsOf(mem, p)); !errors.Is(err, errs.ErrKey) {
			t.Errorf("%s: %v", name, err)
		} else if (name == "failing" || name == "forgets") != errors.Is(err, failed) {
			t.Errorf("%s: the error doesn't wrap the provider's: %v", name, err)
		}
		if names, _ := mem.List("db"); len(names) > 0 {
			t.Errorf("%s: left %q", name, names)
		}
	}
}

// TestTooManyKeys: the file has a bound.
func TestTooManyKeys(t *testing.T) {
	k, err := Create(optionsOf(newMem(t), master(1)))
	for i := 1; err == nil && i < maxKeys; i++ {
		_, err = k.Add(t.Context(), nil, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Add(t.Context(), nil, 0); !errors.Is(err, errs.ErrInvalid) {
		t.Error(err)
	}
}

// rewrap writes the keyring with all data keys wrapped again by p.
func rewrap(k *Keyring, p Provider) error {
	d, err := k.DraftRewrap(context.Background(), p)
	if err == nil {
		_, err = k.Write(d)
	}
	if err == nil {
		err = k.Clean()
	}
	return err
}

// work is all that is done to a keyring, one step after the other. It notes what must be readable
// from then on, and which providers may be needed.
type work struct {
	units     []*sealed
	providers []Provider
}

func (w *work) run(t *testing.T, fsys vfs.FS) error {
	w.providers = []Provider{master(1)}
	k, err := Create(optionsOf(fsys, master(1)))
	if err != nil {
		return err
	}
	use := func(id crypt.ID) {
		if err := k.Ring().SetCurrent(id); err != nil {
			t.Fatal(err)
		}
		w.units = append(w.units, encrypt(t, k.Ring()))
	}
	use(k.Ring().Current())
	id, err := k.Add(t.Context(), nil, 0)
	if err != nil {
		return err
	}
	use(id)
	w.providers = append(w.providers, master(2))
	if id, err = k.Add(t.Context(), master(2), 0); err != nil {
		return err
	}
	use(id)
	if err := k.Clean(); err != nil {
		return err
	}
	w.providers = []Provider{master(2), master(3)}
	if err := rewrap(k, master(3)); err != nil {
		return err
	}
	w.providers = w.providers[1:]
	w.units = w.units[1:]
	return k.Keep(func(id crypt.ID) bool { return id == w.units[0].keyID.Key })
}

// check opens the keyring as the next process does.
func (w *work) check(fsys vfs.FS) error {
	if len(w.units) == 0 {
		return nil
	}
	var err error
	for _, p := range w.providers {
		var k *Keyring
		if k, err = Open(optionsOf(fsys, p)); err != nil {
			return err
		}
		if err = k.Clean(); err != nil {
			return err
		}
		for _, l := range w.units {
			err = errors.Join(err, l.decrypt(k.Ring()))
		}
		if err == nil {
			return nil
		}
	}
	return err
}

func TestCrashAtEachCall(t *testing.T) {
	w := work{}
	mem := newMem(t)
	crashes := 0
	fsys := faultfs.New(mem, faultfs.Options{Before: func(o faultfs.Op) {
		for mode := vfs.Lost; mode <= vfs.Chaos; mode++ {
			for seed := range uint64(4) {
				crashes++
				if err := w.check(mem.CrashClone(vfs.CrashOptions{Mode: mode, Seed: seed})); err != nil {
					t.Errorf("crash before %v, mode %v, seed %d: %v", o, mode, seed, err)
				}
			}
		}
	}})
	if err := w.run(t, fsys); err != nil {
		t.Fatal(err)
	}
	if err := w.check(mem.CrashClone(vfs.CrashOptions{})); err != nil {
		t.Error(err)
	}
	if crashes < 300 {
		t.Errorf("%d crashes", crashes)
	}
}

func TestFaultAtEachCall(t *testing.T) {
	for nth := 1; ; nth++ {
		for _, short := range []bool{false, true} {
			w := work{}
			mem := newMem(t)
			fsys := faultfs.New(mem, faultfs.Options{})
			fsys.Inject(faultfs.Fault{Nth: nth, Short: short})
			err := w.run(t, fsys)
			if fsys.Struck() == 0 {
				return
			}
			if err == nil {
				t.Logf("fault %d did no harm", nth)
			}
			for _, mode := range []vfs.CrashMode{vfs.Lost, vfs.All} {
				if err := w.check(mem.CrashClone(vfs.CrashOptions{Mode: mode})); err != nil {
					t.Errorf("fault %d (%v), mode %v: %v", nth, short, mode, err)
				}
			}
		}
	}
}

// TestFailedSyncAndRemoval: a keyring whose sync has failed, and that could not be removed, is read
// from memory by the next Open. It is durable before the one before goes.
func TestFailedSyncAndRemoval(t *testing.T) {
	mem := newMem(t)
	fsys := faultfs.New(mem, faultfs.Options{})
	p := master(1)
	k, err := Create(optionsOf(fsys, p))
	if err != nil {
		t.Fatal(err)
	}
	l := encrypt(t, k.Ring())
	fsys.Inject(faultfs.Fault{Kinds: faultfs.Sync, Path: "KEYS-"}, faultfs.Fault{Kinds: faultfs.Remove})
	if _, err := k.Add(t.Context(), nil, 2); err == nil || fsys.Struck() != 2 {
		t.Fatalf("%v, %d faults", err, fsys.Struck())
	}
	if k, err = Open(optionsOf(fsys, p)); err != nil {
		t.Fatal(err)
	}
	if err := k.Clean(); err != nil {
		t.Fatal(err)
	}
	if k, err = Open(optionsOf(mem.CrashClone(vfs.CrashOptions{}), p)); err != nil {
		t.Fatal(err)
	}
	if err := l.decrypt(k.Ring()); err != nil {
		t.Error(err)
	}
}

// TestDamagedNewest: a file with a greater number that isn't whole doesn't count, and is neither
// written over nor followed, even if no number is greater.
func TestDamagedNewest(t *testing.T) {
	mem := newMem(t)
	k, err := Create(optionsOf(mem, master(1)))
	if err != nil {
		t.Fatal(err)
	}
	l := encrypt(t, k.Ring())
	f, err := mem.Create("db/" + filename.Of(filename.Keyring, 1<<64-1))
	if err == nil {
		_, err = f.WriteAt([]byte(magic), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if k, err = Open(optionsOf(mem, master(1))); err != nil {
		t.Fatal(err)
	}
	if err := l.decrypt(k.Ring()); err != nil {
		t.Error(err)
	}
	if _, err := k.Add(t.Context(), nil, 0); err != nil || k.Content().Number != 2 {
		t.Errorf("number %d, %v", k.Content().Number, err)
	}
	if err := errors.Join(k.Clean(), l.decrypt(k.Ring())); err != nil {
		t.Error(err)
	}
	if names, _ := mem.List("db"); !slices.Equal(names, []string{"KEYS-000002", "KEYS-18446744073709551615"}) {
		t.Errorf("files %q", names)
	}
}

// missingOnce is a file system whose first list lacks all keyrings.
type missingOnce struct {
	vfs.FS
	lists int
}

// List implements vfs.FS.
func (m *missingOnce) List(dir string) ([]string, error) {
	if m.lists++; m.lists == 1 {
		return nil, nil
	}
	return m.FS.List(dir)
}

// TestLoadBesideAChange: a list of names that is made while a keyring takes the place of another
// may have neither. That is no store without keys.
func TestLoadBesideAChange(t *testing.T) {
	mem := newMem(t)
	_, err := Create(optionsOf(mem, master(1)))
	must(t, err)
	fsys := &missingOnce{FS: mem}
	if _, err := Load(fsys, "db", testUUID); err != nil || fsys.lists != 2 {
		t.Errorf("after %d lists: %v", fsys.lists, err)
	}
}
