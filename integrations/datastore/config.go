package brockds

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/brockdb/brock"
)

// Type is the value of "type" in a datastore spec.
const Type = "brockds"

// Config is a datastore spec: what the plugin of a program such as kubo gets from the file of its
// repository. ParseConfig makes it.
type Config struct {
	// Path is the directory of the store; a relative one is relative to the repository.
	Path string
	// SyncWrites makes each write wait for the disk. Without it a write is safe from a power loss
	// after the next Sync, which kubo calls where it matters.
	SyncWrites bool
	// Compression of values of 1 KiB or more, from now on.
	Compression brock.Compression
	// MemoryLimit is brock.Options.MemoryLimit in bytes; 0 = its default.
	MemoryLimit int64
	// DiskLimit is brock.Options.DiskLimit in bytes; 0 = none.
	DiskLimit int64
	// KeyFile is a key file, by which the store is encrypted; "" = it is plain. A relative path is
	// relative to the repository.
	KeyFile string
}

// ParseConfig reads a spec as encoding/json decodes it. Only "path" is needed:
//
//	{"type": "brockds", "path": "brock", "syncWrites": false, "compression": "none",
//	 "memoryLimit": "256MiB", "diskLimit": "0", "keyFile": ""}
//
// Compression is none, s2 or zstd. A limit is a number of bytes, or a string such as "512MB" or
// "1GiB". A field that is unknown or of another type is an error that is brock.ErrInvalid: what is
// misspelt would be ignored silently otherwise.
func ParseConfig(spec map[string]any) (*Config, error) {
	c := new(Config)
	for field, value := range spec {
		var err error
		switch field {
		case "type":
			var name string
			if name, err = asString(value); err == nil && name != Type {
				err = fmt.Errorf("is %q, not %q", name, Type)
			}
		case "path":
			c.Path, err = asString(value)
		case "syncWrites":
			var ok bool
			if c.SyncWrites, ok = value.(bool); !ok {
				err = fmt.Errorf("is no boolean")
			}
		case "compression":
			c.Compression, err = asCompression(value)
		case "memoryLimit":
			c.MemoryLimit, err = asBytes(value)
		case "diskLimit":
			c.DiskLimit, err = asBytes(value)
		case "keyFile":
			c.KeyFile, err = asString(value)
		default:
			err = fmt.Errorf("is unknown")
		}
		if err != nil {
			return nil, specError(field, err)
		}
	}
	if c.Path == "" {
		return nil, specError("path", fmt.Errorf("is missing"))
	}
	return c, nil
}

func specError(field string, err error) error {
	return fmt.Errorf("brockds: field %q of the datastore spec %w: %w", field, err, brock.ErrInvalid)
}

// DiskSpec returns what must not change once there is a store: kubo keeps it beside the repository,
// and refuses to open one whose spec has another.
func (c *Config) DiskSpec() map[string]any {
	return map[string]any{"type": Type, "path": c.Path}
}

// Create opens the store in the repository, and makes it if it is not there.
func (c *Config) Create(repository string) (*Datastore, error) {
	within := func(path string) string {
		if filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(repository, path)
	}
	o := brock.Options{
		Dir:              within(c.Path),
		MemoryLimit:      c.MemoryLimit,
		DiskLimit:        c.DiskLimit,
		KeyspaceDefaults: brock.KeyspaceOptions{Compression: c.Compression},
	}
	if c.SyncWrites {
		o.Durability = brock.Synced
	}
	if c.KeyFile != "" {
		o.Keys = brock.KeyFile(within(c.KeyFile))
	}
	return Open(o)
}

func asString(value any) (string, error) {
	s, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("is no string")
	}
	return s, nil
}

func asCompression(value any) (brock.Compression, error) {
	name, err := asString(value)
	if err != nil {
		return 0, err
	}
	switch name {
	case "", "none":
		return brock.NoCompression, nil
	case "s2":
		return brock.S2, nil
	case "zstd":
		return brock.Zstd, nil
	}
	return 0, fmt.Errorf("is %q, not none, s2 or zstd", name)
}

// units are the units of sizes, longest first, as each ends in another one.
var units = []struct {
	name  string
	bytes float64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
	{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12}, {"b", 1},
}

// asBytes reads a size. JSON has numbers as float64; other formats may have ints.
func asBytes(value any) (int64, error) {
	var n float64
	switch v := value.(type) {
	case float64:
		n = v
	case int:
		n = float64(v)
	case int64:
		n = float64(v)
	case string:
		digits, unit := strings.ToLower(strings.TrimSpace(v)), 1.0
		for _, u := range units {
			if rest, ok := strings.CutSuffix(digits, u.name); ok {
				digits, unit = strings.TrimSpace(rest), u.bytes
				break
			}
		}
		var err error
		if n, err = strconv.ParseFloat(digits, 64); err != nil {
			return 0, fmt.Errorf("is no size")
		}
		n *= unit
	default:
		return 0, fmt.Errorf("is no size")
	}
	if !(n >= 0 && n < math.MaxInt64) { // nor NaN
		return 0, fmt.Errorf("is out of range")
	}
	return int64(n), nil
}
