package otelstorage

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/brockdb/brock/vfs"
)

// writeSource writes pairs to the file that file_storage has for the storage "logs" of an exporter.
func writeSource(t *testing.T, dir string, pairs map[string]string) (file string) {
	t.Helper()
	file = filepath.Join(dir, "exporter_otlp__logs")
	if err := os.RemoveAll(file); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{NoSync: true, NoFreelistSync: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(sourceBucket)
		for key, value := range pairs {
			err = errors.Join(err, b.Put([]byte(key), []byte(value)))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

// manyPairs returns pairs of n * 10 KB.
func manyPairs(n int) map[string]string {
	pairs := make(map[string]string)
	for i := range n {
		pairs[fmt.Sprint(i)] = strings.Repeat(fmt.Sprintf("%09d ", i), 1000)
	}
	return pairs
}

// expectPairs fails the test unless the storage has these pairs, and no others.
func expectPairs(t *testing.T, c storage.Client, want map[string]string) {
	t.Helper()
	got := 0
	if err := c.(storage.Walker).Walk(t.Context(), func(key string, value []byte) ([]*storage.Operation, error) {
		if v, found := want[key]; !found || v != string(value) {
			t.Errorf("%s is %.20q, and not %.20q", key, value, v)
		}
		got++
		return nil, nil
	}); err != nil || got != len(want) {
		t.Fatalf("there are %d pairs, and not %d: %v", got, len(want), err)
	}
}

func TestSourceFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for want, got := range map[string]func() (string, error){
		"exporter_otlp__logs": func() (string, error) { return sourceFile(dir, exporterKind, exporterID, "logs") },
		"receiver_filelog_a~002Fb~007E~00FC": func() (string, error) {
			return sourceFile(dir, component.KindReceiver, component.MustNewIDWithName("filelog", "a/b~ü"), "")
		},
	} {
		if file, err := got(); file != "" || err != nil {
			t.Fatalf("%q, %v: there is none", file, err)
		}
		if err := os.WriteFile(filepath.Join(dir, want), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if file, err := got(); filepath.Base(file) != want || err != nil {
			t.Fatalf("%s, %v, and not %s", file, err, want)
		}
	}
}

// A migration that was interrupted, as here by a full storage, goes on behind the last pair, also after
// the process was killed or the power was lost. The file stays as it is.
func TestMigrationGoesOn(t *testing.T) {
	t.Parallel()
	source := t.TempDir()
	pairs := manyPairs(3500)
	file := writeSource(t, source, pairs)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	disk := vfs.NewMem()
	cfg := testConfig("/storage", func(c *Config) { c.MigrateFrom, c.DiskLimitMiB = source, 32 })
	s := startOn(t, cfg, disk, componenttest.NewNopHost())
	if _, err := s.GetClient(t.Context(), exporterKind, exporterID, "logs"); !errors.Is(err, storage.ErrStorageFull) {
		t.Fatalf("35 MB come into 32 MiB: %v", err)
	}
	for _, mode := range []vfs.CrashMode{vfs.All, vfs.Lost} {
		core, logs := observer.New(zap.InfoLevel)
		set := nopSettings()
		set.Logger = zap.New(core)
		next := newExtension(set, testConfig("/storage", func(c *Config) { c.MigrateFrom = source }))
		next.fs = disk.CrashClone(vfs.CrashOptions{Mode: mode})
		if err := next.Start(t.Context(), componenttest.NewNopHost()); err != nil {
			t.Fatal(err)
		}
		expectPairs(t, getClient(t, next, "logs"), pairs)
		shutdown(t, next)
		done := logs.FilterMessageSnippet("taken over").All()
		if len(done) != 1 {
			t.Fatalf("%v", logs.All())
		}
		copied := done[0].ContextMap()["pairs"].(int64)
		t.Logf("%v: %d pairs of %d were left", mode, copied, len(pairs))
		if mode == vfs.All && (copied == 0 || copied > int64(len(pairs))*3/4) {
			t.Fatalf("it copied %d pairs of %d", copied, len(pairs))
		}
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(content, after) {
		t.Fatalf("the file has changed, %v", err)
	}
}

// What was taken over once is not taken over again, and nothing comes into a storage that has data.
func TestMigrationOnce(t *testing.T) {
	t.Parallel()
	source := t.TempDir()
	writeSource(t, source, map[string]string{"a": "1", "b": "2", "empty": ""})
	cfg := testConfig(t.TempDir(), func(c *Config) { c.MigrateFrom = source })
	for range 2 {
		s := start(t, cfg)
		c := getClient(t, s, "logs")
		expect(t, c, "b", "2")
		expect(t, c, "empty", "")
		if err := c.Delete(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		expectNone(t, getClient(t, s, "logs"), "a")
		expectNone(t, getClient(t, s, "traces"), "b") // file_storage has none of this name
		shutdown(t, s)
	}
	s := start(t, cfg)
	expectNone(t, getClient(t, s, "logs"), "a")

	own := testConfig(t.TempDir())
	s = start(t, own)
	set(t, getClient(t, s, "logs"), "own", "data")
	shutdown(t, s)
	own.MigrateFrom = source
	expectPairs(t, getClient(t, start(t, own), "logs"), map[string]string{"own": "data"})
}

// When the file has changed since a migration was interrupted, nothing of the old one stays.
func TestMigrationOfAnotherFile(t *testing.T) {
	t.Parallel()
	source := t.TempDir()
	writeSource(t, source, manyPairs(3500))
	dir := t.TempDir()
	s := start(t, testConfig(dir, func(c *Config) { c.MigrateFrom, c.DiskLimitMiB = source, 32 }))
	if _, err := s.GetClient(t.Context(), exporterKind, exporterID, "logs"); !errors.Is(err, storage.ErrStorageFull) {
		t.Fatal(err)
	}
	shutdown(t, s)
	pairs := map[string]string{"0": "new", "z": "new"}
	writeSource(t, source, pairs)
	s = start(t, testConfig(dir, func(c *Config) { c.MigrateFrom = source }))
	expectPairs(t, getClient(t, s, "logs"), pairs)
}

// A file that is damaged, or open, is refused, and the process goes on.
func TestMigrationRefused(t *testing.T) {
	t.Parallel()
	source := t.TempDir()
	file := writeSource(t, source, manyPairs(100))
	s := start(t, testConfig(t.TempDir(), func(c *Config) { c.MigrateFrom, c.Timeout = source, 0 }))
	db, err := bbolt.Open(file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetClient(t.Context(), exporterKind, exporterID, "logs"); err == nil {
		t.Fatal("a file that is open was read")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := 3 * os.Getpagesize(); i < len(content); i++ {
		content[i] = 0xff
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetClient(t.Context(), exporterKind, exporterID, "logs"); err == nil {
		t.Fatal("a damaged file was taken over")
	}
	// Another storage is not concerned.
	set(t, getClient(t, s, "traces"), "key", "value")
}
