package otelstorage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/extension/xextension/storage"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/vfs"
)

func TestFactory(t *testing.T) {
	t.Parallel()
	f := NewFactory()
	if f.Type().String() != "brock_storage" || f.Stability() != component.StabilityLevelAlpha {
		t.Fatalf("%s, %s", f.Type(), f.Stability())
	}
	cfg := f.CreateDefaultConfig()
	if err := componenttest.CheckConfigStruct(cfg); err != nil {
		t.Fatal(err)
	}
	ext, err := f.Create(t.Context(), extensiontest.NewNopSettings(f.Type()), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := ext.(storage.Extension); !ok {
		t.Fatal("no storage.Extension")
	}
	// One that was never started can be shut down.
	if err := ext.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestLifecycle(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir())
	s := newExtension(nopSettings(), cfg)
	id := component.MustNewID("otlp")
	get := func(ctx context.Context) (storage.Client, error) {
		return s.GetClient(ctx, component.KindExporter, id, "logs")
	}
	if _, err := get(t.Context()); !errors.Is(err, errNotStarted) {
		t.Fatalf("GetClient before Start: %v", err)
	}
	if err := s.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context(), componenttest.NewNopHost()); err == nil {
		t.Fatal("it started twice")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := get(ended); !errors.Is(err, context.Canceled) {
		t.Fatalf("GetClient with a context that has ended: %v", err)
	}
	a, err := get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := getClient(t, s, "logs")
	set(t, a, "key", "value")
	expect(t, b, "key", "value")
	for range 2 {
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// All calls of a closed client fail, and those of others go on.
	checkRefused(t, a, errClientClosed)
	expect(t, b, "key", "value")
	for range 2 {
		shutdown(t, s)
	}
	checkRefused(t, b, brock.ErrClosed)
	if _, err := get(t.Context()); !errors.Is(err, errShutdown) {
		t.Fatalf("GetClient after Shutdown: %v", err)
	}
	if err := s.Start(t.Context(), componenttest.NewNopHost()); !errors.Is(err, errShutdown) {
		t.Fatalf("Start after Shutdown: %v", err)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, getClient(t, start(t, cfg), "logs"), "key", "value")
}

// checkRefused fails the test unless each call of a client returns this error.
func checkRefused(t *testing.T, c storage.Client, want error) {
	t.Helper()
	ctx := t.Context()
	_, getErr := c.Get(ctx, "key")
	for name, err := range map[string]error{
		"Get":    getErr,
		"Set":    c.Set(ctx, "key", nil),
		"Delete": c.Delete(ctx, "key"),
		"Batch":  c.Batch(ctx, storage.GetOperation("key"), storage.SetOperation("key", nil)),
		"gets":   c.Batch(ctx, storage.GetOperation("key")),
		"Walk": c.(storage.Walker).Walk(ctx, func(string, []byte) ([]*storage.Operation, error) {
			return nil, nil
		}),
	} {
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, and not %v", name, err, want)
		}
	}
}

func TestClientsAreApart(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir())
	s := start(t, cfg)
	long := strings.Repeat("long", 100)
	type owner struct {
		kind component.Kind
		id   component.ID
		name string
	}
	var owners []owner
	for _, kind := range []component.Kind{component.KindReceiver, component.KindProcessor, component.KindExporter,
		component.KindExtension, component.KindConnector} {
		for _, id := range []component.ID{component.MustNewID("a"), component.MustNewIDWithName("a", "b"),
			component.MustNewIDWithName("a", "b/c"), component.MustNewIDWithName("a", long+"1"),
			component.MustNewIDWithName("a", long+"2"), component.MustNewIDWithName("a", "b#%2F~ü")} {
			for _, name := range []string{"", "b", "c", "b/c", "%2F", long} {
				owners = append(owners, owner{kind, id, name})
			}
		}
	}
	value := func(o owner) string { return o.kind.String() + " " + o.id.String() + " " + o.name }
	names := make(map[string]bool)
	for _, o := range owners {
		name := keyspaceName(o.kind, o.id, o.name)
		if names[name] || len(name) > brock.MaxKeyspaceName {
			t.Fatalf("the name %q of %s is too long, or there already", name, value(o))
		}
		names[name] = true
		c, err := s.GetClient(t.Context(), o.kind, o.id, o.name)
		if err != nil {
			t.Fatal(err)
		}
		set(t, c, "key", value(o))
	}
	shutdown(t, s)
	s = start(t, cfg)
	for _, o := range owners {
		c, err := s.GetClient(t.Context(), o.kind, o.id, o.name)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, c, "key", value(o))
		count := 0
		if err := c.(storage.Walker).Walk(t.Context(), func(string, []byte) ([]*storage.Operation, error) {
			count++
			return nil, nil
		}); err != nil || count != 1 {
			t.Fatalf("a Walk of %s finds %d keys, %v", value(o), count, err)
		}
	}
	if got := keyspaceName(component.KindExporter, component.MustNewIDWithName("otlp", "x/y"), "logs"); got != "exporter/otlp/x%2Fy/logs" {
		t.Fatal(got)
	}
}

// A store that another extension has open is waited for, and then refused.
func TestLocked(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir(), func(c *Config) { c.Timeout = time.Millisecond })
	s := start(t, cfg)
	other := newExtension(nopSettings(), cfg)
	if err := other.Start(t.Context(), componenttest.NewNopHost()); !errors.Is(err, brock.ErrLocked) {
		t.Fatalf("a second extension: %v", err)
	}
	shutdown(t, other)
	set(t, getClient(t, s, "logs"), "key", "value")
}

func TestEncryption(t *testing.T) {
	t.Parallel()
	const secret = "a secret that must not be in a file"
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys")
	writeKey := func(name, key string) {
		if err := os.WriteFile(keys, []byte(name+" "+key+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first := "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	writeKey("first", first)
	cfg := testConfig(filepath.Join(dir, "storage"), func(c *Config) {
		c.CreateDirectory, c.EncryptionKeyFile = true, keys
	})
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	s := start(t, cfg)
	set(t, getClient(t, s, "logs"), secret, strings.Repeat(secret, 100))
	shutdown(t, s)
	expectInFiles(t, cfg.Directory, secret, false)

	other := newExtension(nopSettings(), cfg)
	writeKey("other", "AQECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
	// The key is wrong, and nothing is damaged: nothing may be replaced.
	other.cfg.Recreate = true
	if err := other.Start(t.Context(), componenttest.NewNopHost()); !errors.Is(err, brock.ErrKey) {
		t.Fatalf("Start with another key: %v", err)
	}
	writeKey("first", first)
	expect(t, getClient(t, start(t, cfg), "logs"), secret, strings.Repeat(secret, 100))
}

// expectInFiles fails the test unless a text is in the files of a directory, or is not.
func expectInFiles(t *testing.T, dir, text string, want bool) {
	t.Helper()
	found := false
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		found = found || bytes.Contains(content, []byte(text))
		return err
	})
	if err != nil || found != want {
		t.Fatalf("in the files of %s: %t, %v", dir, found, err)
	}
}

func TestCompression(t *testing.T) {
	t.Parallel()
	for _, compression := range []string{"none", "s2", "zstd"} {
		cfg := testConfig(t.TempDir(), func(c *Config) { c.Compression = compression })
		text := strings.Repeat(`{"severity": "INFO", "body": "a log line as many others"}`, 100)
		s := start(t, cfg)
		set(t, getClient(t, s, "logs"), "key", text)
		shutdown(t, s)
		expectInFiles(t, cfg.Directory, text, compression == "none")
		cfg.Compression = "none"
		expect(t, getClient(t, start(t, cfg), "logs"), "key", text)
	}
}

// With Recreate a damaged store is replaced by what can be salvaged, and the damaged one stays.
func TestRecreate(t *testing.T) {
	t.Parallel()
	const keys = 1000
	value := func(i int) string { return strings.Repeat(strconv.Itoa(i)+" ", 200) }
	live := testConfig(t.TempDir(), func(c *Config) { c.Durability = durabilitySynced })
	c := getClient(t, start(t, live), "logs")
	var ops []*storage.Operation
	for i := range keys {
		if ops = append(ops, storage.SetOperation(strconv.Itoa(i), []byte(value(i)))); len(ops) == 100 {
			if err := c.Batch(t.Context(), ops...); err != nil {
				t.Fatal(err)
			}
			ops = nil
		}
	}
	// A copy of the open store is as after a crash: its journal is read when it is opened.
	cfg := testConfig(t.TempDir())
	store := filepath.Join(cfg.Directory, storeName)
	if err := os.CopyFS(store, os.DirFS(filepath.Join(live.Directory, storeName))); err != nil {
		t.Fatal(err)
	}
	damageLargest(t, store)
	s := newExtension(nopSettings(), cfg)
	if err := s.Start(t.Context(), componenttest.NewNopHost()); !errors.Is(err, brock.ErrCorrupt) {
		t.Fatalf("Start of a damaged store: %v", err)
	}
	cfg.Recreate = true
	c = getClient(t, start(t, cfg), "logs")
	found := 0
	for i := range keys {
		got, err := c.Get(t.Context(), strconv.Itoa(i))
		if err != nil || got != nil && string(got) != value(i) {
			t.Fatalf("%d is %q, %v", i, got, err)
		}
		if got != nil {
			found++
		}
	}
	if found < keys/2 || found == keys {
		t.Fatalf("%d of %d keys were salvaged", found, keys)
	}
	if aside, err := filepath.Glob(store + ".*.damaged/MANIFEST*"); err != nil || len(aside) != 1 {
		t.Fatalf("the damaged store is not there: %v, %v", aside, err)
	}
	if all, err := filepath.Glob(store + "*"); err != nil || len(all) != 2 {
		t.Fatalf("more than two stores are left: %v, %v", all, err)
	}
}

// damageLargest changes a byte in the first half of what the largest file of a directory holds.
func damageLargest(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var content []byte
	var name string
	for _, f := range files {
		c, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		// Zeros at the end are space that was taken in advance.
		if c = bytes.TrimRight(c, "\x00"); len(c) > len(content) {
			content, name = c, f
		}
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	at := len(content) / 3
	if _, err := f.WriteAt([]byte{content[at] ^ 1}, int64(at)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// Of a store that nothing is left of, not even the header, the extension makes an empty one.
func TestRecreateOfNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := testConfig(dir, func(c *Config) { c.Recreate = true })
	s := start(t, cfg)
	set(t, getClient(t, s, "logs"), "key", "value")
	shutdown(t, s)
	files, err := filepath.Glob(filepath.Join(dir, storeName, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, make([]byte, info.Size()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := getClient(t, start(t, cfg), "logs")
	expectNone(t, c, "key")
	set(t, c, "key", "new")
}

// A power loss takes no synced write, and a buffered one only until it is synced regularly.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	for _, durability := range []string{durabilityBuffered, durabilitySynced} {
		disk := vfs.NewMem()
		cfg := testConfig("/storage", func(c *Config) {
			c.Durability, c.SyncInterval = durability, time.Millisecond
		})
		c := getClient(t, startOn(t, cfg, disk, componenttest.NewNopHost()), "logs")
		set(t, c, "key", "value")
		survives := func() bool {
			left := newExtension(nopSettings(), cfg)
			left.fs = disk.CrashClone(vfs.CrashOptions{Mode: vfs.Lost})
			if err := left.Start(t.Context(), componenttest.NewNopHost()); err != nil {
				t.Fatal(err)
			}
			defer shutdown(t, left)
			value, err := getClient(t, left, "logs").Get(t.Context(), "key")
			if err != nil {
				t.Fatal(err)
			}
			return string(value) == "value"
		}
		if durability == durabilitySynced && !survives() {
			t.Fatal("a synced write is gone")
		}
		// As often as it takes: the test has a time limit of its own.
		for !survives() {
			time.Sleep(time.Millisecond)
		}
	}
}

// startOnFaults starts an extension that syncs each write, on a disk whose calls can fail.
func startOnFaults(t *testing.T) (*faultfs.FS, *statusHost, storage.Client) {
	t.Helper()
	fsys := faultfs.New(vfs.NewMem(), faultfs.Options{})
	host := newStatusHost()
	s := startOn(t, testConfig("/storage", func(c *Config) { c.Durability = durabilitySynced }), fsys, host)
	c := getClient(t, s, "logs")
	set(t, c, "key", "value")
	return fsys, host, c
}

var failedSync = faultfs.Fault{Kinds: faultfs.Sync | faultfs.SyncData, Err: faultfs.ErrIO}

// After a failed sync the store is opened again, and writes that were under way are executed in it:
// nobody sees an error.
func TestReopen(t *testing.T) {
	t.Parallel()
	fsys, host, c := startOnFaults(t)
	ctx := t.Context()
	var all sync.WaitGroup
	for writer := range 8 {
		all.Go(func() {
			for i := range 100 {
				key, value := fmt.Sprint(writer, " ", i), fmt.Sprint(i)
				get := storage.GetOperation("key")
				if err := c.Batch(ctx, storage.SetOperation(key, []byte(value)), get); err != nil || string(get.Value) != "value" {
					t.Errorf("%s: %q, %v", key, get.Value, err)
				}
				if got, err := c.Get(ctx, key); err != nil || string(got) != value {
					t.Errorf("%s is %q, %v", key, got, err)
				}
				if writer == 0 && i == 50 {
					fsys.Inject(failedSync)
				}
			}
		})
	}
	all.Wait()
	_ = host.await(t, componentstatus.StatusOK)
	for writer := range 8 {
		for i := range 100 {
			expect(t, c, fmt.Sprint(writer, " ", i), fmt.Sprint(i))
		}
	}
	// What reads before it writes is not executed twice: it may have been.
	fsys.Inject(failedSync)
	err := c.Batch(ctx, storage.GetOperation("key"), storage.SetOperation("key", []byte("other")))
	if !errors.Is(err, brock.ErrStopped) || errors.Is(err, brock.ErrClosed) {
		t.Fatalf("a batch whose sync failed: %v", err)
	}
	// It is the second stop within a minute, so the next store comes after a wait.
	_ = host.await(t, componentstatus.StatusOK)
	set(t, c, "key", "new")
	expect(t, c, "key", "new")
}

// While a disk fails every sync, calls fail and the status says why. Once it works again, so do they,
// without a restart.
func TestReopenLater(t *testing.T) {
	t.Parallel()
	fsys, host, c := startOnFaults(t)
	broken := failedSync
	broken.Times = faultfs.Always
	fsys.Inject(broken)
	for range 2 {
		err := c.Set(t.Context(), "key", []byte("other"))
		if !errors.Is(err, brock.ErrStopped) || errors.Is(err, storage.ErrStorageFull) {
			t.Fatalf("a write to a disk that fails: %v", err)
		}
	}
	if err := host.await(t, componentstatus.StatusRecoverableError); err == nil {
		t.Fatal("the status has no error")
	}
	fsys.Heal()
	_ = host.await(t, componentstatus.StatusOK)
	set(t, c, "key", "new")
	expect(t, c, "key", "new")
}

// Shutdown ends the wait for the next attempt.
func TestShutdownOfAStoppedStore(t *testing.T) {
	t.Parallel()
	fsys := faultfs.New(vfs.NewMem(), faultfs.Options{})
	s := newExtension(nopSettings(), testConfig("/storage", func(c *Config) { c.Durability = durabilitySynced }))
	s.fs = fsys
	if err := s.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	c := getClient(t, s, "logs")
	broken := failedSync
	broken.Times = faultfs.Always
	fsys.Inject(broken)
	if err := c.Set(t.Context(), "key", nil); !errors.Is(err, brock.ErrStopped) {
		t.Fatal(err)
	}
	// It says what it could not do.
	_ = s.Shutdown(t.Context())
	if err := c.Set(t.Context(), "key", nil); !errors.Is(err, brock.ErrStopped) && !errors.Is(err, brock.ErrClosed) {
		t.Fatalf("a write after Shutdown: %v", err)
	}
	if _, err := s.GetClient(t.Context(), exporterKind, exporterID, "logs"); !errors.Is(err, errShutdown) {
		t.Fatalf("GetClient after Shutdown: %v", err)
	}
}
