package otelstorage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"go.opentelemetry.io/collector/component"

	"github.com/brockdb/brock"
)

// Config is the configuration of the extension. createDefaultConfig has the defaults.
type Config struct {
	// Directory is where the store lies, in a directory of its own named brock. It must be on a
	// local disk. Two extensions can't share it. The default is the one of file_storage with the
	// name of this extension: /var/lib/otelcol/brock_storage.
	Directory string `mapstructure:"directory,omitempty"`

	// CreateDirectory creates Directory, and those above it, if it doesn't exist. Otherwise that
	// is an error, so that a disk that isn't mounted is noticed.
	CreateDirectory bool `mapstructure:"create_directory,omitempty"`

	// DirectoryPermissions are those of directories that CreateDirectory makes, in octal, minus
	// the umask; the default is 0750. The store in it belongs to its owner alone.
	DirectoryPermissions string `mapstructure:"directory_permissions,omitempty"`

	// Timeout is how long Start waits while another process has the store open; the default is
	// 1s. 0 is not at all.
	Timeout time.Duration `mapstructure:"timeout,omitempty"`

	// MemoryLimitMiB bounds the memory of the store in MiB, for all clients together; up to
	// 32 MB may come on top, and mapped files, which the system takes back. The default is 64,
	// the least 4.
	MemoryLimitMiB int64 `mapstructure:"memory_limit_mib,omitempty"`

	// DiskLimitMiB bounds the files of the store in MiB, for all clients together. Near it, and
	// near the end of the disk, what adds data returns storage.ErrStorageFull, and what is there
	// can still be read, overwritten and deleted. 0, the default, is no limit; the least is 32.
	DiskLimitMiB int64 `mapstructure:"disk_limit_mib,omitempty"`

	// Durability says what has happened when a write returns. With buffered, the default, the
	// write survives the end of the process, and a power loss after SyncInterval. With synced
	// it survives a power loss.
	Durability string `mapstructure:"durability,omitempty"`

	// SyncInterval is how often buffered writes are made durable; the default is 1s. 0 leaves
	// that to the system. It means nothing if Durability is synced.
	SyncInterval time.Duration `mapstructure:"sync_interval,omitempty"`

	// Compression compresses values of 1 KiB and more: none, the default, s2 or zstd. It may
	// change at any time.
	Compression string `mapstructure:"compression,omitempty"`

	// EncryptionKeyFile names a file with master keys, made by brock keygen. It encrypts a new
	// store, and opens an encrypted one. Empty is a plain store.
	EncryptionKeyFile string `mapstructure:"encryption_key_file,omitempty"`

	// MigrateFrom is the directory of a file_storage extension whose data is taken over: that of each
	// component when it gets its first client. Nothing is written to it. Empty is none.
	MigrateFrom string `mapstructure:"migrate_from,omitempty"`

	// Recreate replaces a damaged store when it is opened: it is moved aside, and what its checksums
	// prove goes into a new one. Without it, Start returns an error.
	Recreate bool `mapstructure:"recreate,omitempty"`
}

// Values of options.
const (
	durabilityBuffered = "buffered"
	durabilitySynced   = "synced"
	minMemoryLimitMiB  = 4
	minDiskLimitMiB    = 32
	maxLimitMiB        = 1 << 40 // so that the bytes fit an int64
)

var durabilities = map[string]brock.Durability{
	durabilityBuffered: brock.Buffered, durabilitySynced: brock.Synced,
}

var compressions = map[string]brock.Compression{
	"none": brock.NoCompression, "s2": brock.S2, "zstd": brock.Zstd,
}

// createDefaultConfig returns a *Config with all defaults.
func createDefaultConfig() component.Config {
	return &Config{
		Directory:            defaultDirectory(),
		DirectoryPermissions: "0750",
		Timeout:              time.Second,
		MemoryLimitMiB:       64,
		Durability:           durabilityBuffered,
		SyncInterval:         time.Second,
		Compression:          "none",
	}
}

// Validate returns an error that names the options that can't be used, or nil. It looks whether
// directory and key file are there, but neither reads nor writes a file.
func (c *Config) Validate() error {
	var problems []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	problems = append(problems, c.validateDirectory())
	check(c.Timeout >= 0, "timeout is negative")
	check(c.MemoryLimitMiB >= minMemoryLimitMiB && c.MemoryLimitMiB <= maxLimitMiB,
		"memory_limit_mib is %d, and the least is %d", c.MemoryLimitMiB, minMemoryLimitMiB)
	check(c.DiskLimitMiB == 0 || c.DiskLimitMiB >= minDiskLimitMiB && c.DiskLimitMiB <= maxLimitMiB,
		"disk_limit_mib is %d, and the least is %d, or 0 for no limit", c.DiskLimitMiB, minDiskLimitMiB)
	check(c.SyncInterval >= 0, "sync_interval is negative")
	_, known := durabilities[c.Durability]
	check(known, "durability is %q, and not buffered or synced", c.Durability)
	_, known = compressions[c.Compression]
	check(known, "compression is %q, and not none, s2 or zstd", c.Compression)
	if c.MigrateFrom != "" {
		// A missing mount must not look like an empty storage.
		info, err := os.Stat(c.MigrateFrom)
		check(err == nil, "migrate_from: %w", err)
		check(err != nil || info.IsDir(), "migrate_from %s is no directory", c.MigrateFrom)
	}
	if c.EncryptionKeyFile != "" {
		info, err := os.Stat(c.EncryptionKeyFile)
		check(err == nil, "encryption_key_file: %w", err)
		check(err != nil || info.Mode().IsRegular(), "encryption_key_file %s is no regular file", c.EncryptionKeyFile)
	}
	return errors.Join(problems...)
}

func (c *Config) validateDirectory() error {
	if c.Directory == "" {
		return errors.New("directory is empty")
	}
	if c.CreateDirectory {
		if _, err := c.permissions(); err != nil {
			return err
		}
	}
	info, err := os.Stat(c.Directory)
	switch {
	case errors.Is(err, fs.ErrNotExist) && c.CreateDirectory:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("directory must exist, or create_directory be true: %w", err)
	case err != nil:
		return fmt.Errorf("directory: %w", err)
	case !info.IsDir():
		return fmt.Errorf("directory %s is no directory", c.Directory)
	}
	return nil
}

// permissions returns DirectoryPermissions as a number.
func (c *Config) permissions() (fs.FileMode, error) {
	bits, err := strconv.ParseUint(c.DirectoryPermissions, 8, 32)
	// The owner must be able to use the directory, so 0 and the like are mistakes.
	if err != nil || bits&^uint64(fs.ModePerm) != 0 || bits&0o700 != 0o700 {
		return 0, fmt.Errorf("directory_permissions %q are not octal permissions from 0700 to 0777", c.DirectoryPermissions)
	}
	return fs.FileMode(bits), nil
}
