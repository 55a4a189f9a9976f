package otelstorage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
)

// Each option of the file has another value than the default, and arrives in Config.
func TestEveryOptionIsRead(t *testing.T) {
	t.Parallel()
	conf, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) *Config {
		sub, err := conf.Sub(name)
		if err != nil {
			t.Fatal(err)
		}
		cfg := createDefaultConfig().(*Config)
		if err := sub.Unmarshal(cfg); err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	if got, want := *read("brock_storage"), *createDefaultConfig().(*Config); got != want {
		t.Fatalf("%+v, and not %+v", got, want)
	}
	want := Config{
		Directory: "/data/queue", CreateDirectory: true, DirectoryPermissions: "0700", Timeout: 3 * time.Second,
		MemoryLimitMiB: 256, DiskLimitMiB: 20480, Durability: "synced", SyncInterval: 100 * time.Millisecond,
		Compression: "zstd", EncryptionKeyFile: "/secrets/keys", MigrateFrom: "/data/file_storage",
		Recreate: true,
	}
	if got := *read("brock_storage/all"); got != want {
		t.Fatalf("%+v, and not %+v", got, want)
	}
	wrong := confmap.NewFromStringMap(map[string]any{"disc_limit_mib": 1})
	if err := wrong.Unmarshal(createDefaultConfig()); err == nil {
		t.Fatal("an option that doesn't exist was accepted")
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	absent := filepath.Join(dir, "absent", "below")
	for _, c := range []struct {
		want   string // in the error; "" = valid
		change func(*Config)
	}{
		{"", func(*Config) {}},
		{"directory is empty", func(c *Config) { c.Directory = "" }},
		{"is no directory", func(c *Config) { c.Directory = file }},
		{"directory: ", func(c *Config) { c.Directory = filepath.Join(file, "below") }},
		{"or create_directory be true", func(c *Config) { c.Directory = absent }},
		{"", func(c *Config) { c.Directory, c.CreateDirectory = absent, true }},
		{"directory_permissions", func(c *Config) { c.CreateDirectory, c.DirectoryPermissions = true, "0800" }},
		{"directory_permissions", func(c *Config) { c.CreateDirectory, c.DirectoryPermissions = true, "1777" }},
		{"directory_permissions", func(c *Config) { c.CreateDirectory, c.DirectoryPermissions = true, "0050" }},
		{"directory_permissions", func(c *Config) { c.CreateDirectory, c.DirectoryPermissions = true, "" }},
		{"", func(c *Config) { c.DirectoryPermissions = "" }},
		{"timeout", func(c *Config) { c.Timeout = -1 }},
		{"", func(c *Config) { c.Timeout = 0 }},
		{"memory_limit_mib", func(c *Config) { c.MemoryLimitMiB = 3 }},
		{"memory_limit_mib", func(c *Config) { c.MemoryLimitMiB = 1 << 62 }},
		{"", func(c *Config) { c.MemoryLimitMiB = 4 }},
		{"disk_limit_mib", func(c *Config) { c.DiskLimitMiB = 31 }},
		{"disk_limit_mib", func(c *Config) { c.DiskLimitMiB = -1 }},
		{"disk_limit_mib", func(c *Config) { c.DiskLimitMiB = 1 << 62 }},
		{"", func(c *Config) { c.DiskLimitMiB = 32 }},
		{"durability", func(c *Config) { c.Durability = "fsync" }},
		{"durability", func(c *Config) { c.Durability = "" }},
		{"", func(c *Config) { c.Durability = "synced" }},
		{"sync_interval", func(c *Config) { c.SyncInterval = -1 }},
		{"", func(c *Config) { c.SyncInterval = 0 }},
		{"compression", func(c *Config) { c.Compression = "gzip" }},
		{"", func(c *Config) { c.Compression = "s2" }},
		{"encryption_key_file", func(c *Config) { c.EncryptionKeyFile = absent }},
		{"no regular file", func(c *Config) { c.EncryptionKeyFile = dir }},
		{"", func(c *Config) { c.EncryptionKeyFile = file }},
		{"migrate_from", func(c *Config) { c.MigrateFrom = absent }},
		{"migrate_from", func(c *Config) { c.MigrateFrom = file }},
		{"", func(c *Config) { c.MigrateFrom = dir }},
	} {
		cfg := testConfig(dir, c.change)
		err := cfg.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, and not %q", cfg, err, c.want)
		}
	}
	// All problems are told at once.
	err := testConfig("", func(c *Config) { c.Compression, c.Durability = "", "" }).Validate()
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("three problems: %v", err)
	}
}

// What Validate accepts at its bounds also starts, with the directory that it makes.
func TestBoundsStart(t *testing.T) {
	t.Parallel()
	cfg := testConfig(filepath.Join(t.TempDir(), "a", "b"), func(c *Config) {
		c.CreateDirectory, c.DirectoryPermissions = true, "0700"
		c.MemoryLimitMiB, c.DiskLimitMiB, c.Timeout, c.SyncInterval = minMemoryLimitMiB, minDiskLimitMiB, 0, 0
	})
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	c := getClient(t, start(t, cfg), "logs")
	set(t, c, "key", "value")
	expect(t, c, "key", "value")
	info, err := os.Stat(cfg.Directory)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("%v, %v", info.Mode(), err)
	}
}
