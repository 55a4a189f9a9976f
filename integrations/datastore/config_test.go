package brockds

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ds "github.com/ipfs/go-datastore"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
)

func TestParseConfig(t *testing.T) {
	for _, c := range []struct {
		spec string
		want Config
		err  string // in the error; "" = none
	}{
		{`{"path": "brock"}`, Config{Path: "brock"}, ""},
		{`{"type": "brockds", "path": "a/b", "syncWrites": true, "compression": "zstd", "memoryLimit": "512MiB", "diskLimit": 1e10, "keyFile": "keys"}`,
			Config{Path: "a/b", SyncWrites: true, Compression: brock.Zstd, MemoryLimit: 512 << 20, DiskLimit: 1e10, KeyFile: "keys"}, ""},
		{`{"path": "p", "compression": "none", "memoryLimit": "1.5 GB", "diskLimit": "0"}`,
			Config{Path: "p", Compression: brock.NoCompression, MemoryLimit: 15e8}, ""},
		{`{"path": "p", "compression": "s2", "memoryLimit": "64kb", "diskLimit": "7b"}`,
			Config{Path: "p", Compression: brock.S2, MemoryLimit: 64e3, DiskLimit: 7}, ""},
		{`{}`, Config{}, `"path"`},
		{`{"path": ""}`, Config{}, `"path"`},
		{`{"path": 1}`, Config{}, `"path"`},
		{`{"path": "p", "type": "badgerds"}`, Config{}, `"type"`},
		{`{"path": "p", "syncwrites": true}`, Config{}, `"syncwrites"`},
		{`{"path": "p", "syncWrites": "yes"}`, Config{}, `"syncWrites"`},
		{`{"path": "p", "compression": "snappy"}`, Config{}, `"compression"`},
		{`{"path": "p", "compression": null}`, Config{}, `"compression"`},
		{`{"path": "p", "memoryLimit": "much"}`, Config{}, `"memoryLimit"`},
		{`{"path": "p", "memoryLimit": "NaN"}`, Config{}, `"memoryLimit"`},
		{`{"path": "p", "memoryLimit": true}`, Config{}, `"memoryLimit"`},
		{`{"path": "p", "diskLimit": -1}`, Config{}, `"diskLimit"`},
		{`{"path": "p", "diskLimit": "1e30"}`, Config{}, `"diskLimit"`},
		{`{"path": "p", "keyFile": 7}`, Config{}, `"keyFile"`},
	} {
		var spec map[string]any
		assert.OK(t, json.Unmarshal([]byte(c.spec), &spec))
		got, err := ParseConfig(spec)
		switch {
		case c.err == "" && (err != nil || *got != c.want):
			t.Errorf("%s: %+v, %v", c.spec, got, err)
		case c.err != "" && (!errors.Is(err, brock.ErrInvalid) || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: %v", c.spec, err)
		}
	}
	if _, err := ParseConfig(nil); !errors.Is(err, brock.ErrInvalid) {
		t.Errorf("no spec: %v", err)
	}
}

// The shapes of kubo's interfaces, which the plugin in the README has to fit (fsrepo.ConfigFromMap,
// fsrepo.DatastoreConfig, repo.Datastore).
type (
	kuboSpec   map[string]any
	kuboConfig interface {
		DiskSpec() kuboSpec
		Create(path string) (ds.Batching, error)
	}
)

type brockConfig struct{ *Config }

func (c brockConfig) DiskSpec() kuboSpec                      { return c.Config.DiskSpec() }
func (c brockConfig) Create(path string) (ds.Batching, error) { return c.Config.Create(path) }

// TestKubo does with a spec what kubo does: it keeps the DiskSpec beside the repository as JSON, and
// opens the store there.
func TestKubo(t *testing.T) {
	repository := t.TempDir()
	assert.OK(t, os.WriteFile(filepath.Join(repository, "keys"), []byte("first "+base64.StdEncoding.EncodeToString(make([]byte, 32))+"\n"), 0o600))
	var c kuboConfig
	for _, spec := range []string{
		`{"type": "brockds", "path": "brock", "keyFile": "keys"}`,
		`{"type": "brockds", "path": "brock", "keyFile": "keys", "syncWrites": true, "compression": "s2", "memoryLimit": "16MB", "diskLimit": "1GB"}`,
	} {
		var m map[string]any
		assert.OK(t, json.Unmarshal([]byte(spec), &m))
		parsed, err := ParseConfig(m)
		assert.OK(t, err)
		c = brockConfig{parsed}
		if want := (kuboSpec{"type": "brockds", "path": "brock"}); !maps.Equal(c.DiskSpec(), want) {
			t.Errorf("disk spec %v", c.DiskSpec())
		}
		d, err := c.Create(repository)
		assert.OK(t, err)
		found, err := d.Has(bg, ds.NewKey("/k"))
		if err != nil || found != parsed.SyncWrites { // written by the first spec
			t.Errorf("%s: %v, %v", spec, found, err)
		}
		put(t, d, "/k", "v")
		o := d.(*Datastore).DB().Options()
		if want := brock.Buffered; !parsed.SyncWrites && o.Durability != want || parsed.SyncWrites && o.Durability != brock.Synced {
			t.Errorf("%s: durability %v", spec, o.Durability)
		}
		if _, err := os.Stat(filepath.Join(repository, "brock")); err != nil {
			t.Error(err)
		}
		assert.OK(t, d.Close())
	}
	outside := t.TempDir()
	plain, err := (&Config{Path: outside}).Create(repository) // an absolute path
	assert.OK(t, err)
	assert.OK(t, plain.Close())
	if _, err := (&Config{Path: "brock"}).Create(repository); !errors.Is(err, brock.ErrKey) {
		t.Errorf("without the keys: %v", err)
	}
	if _, err := (&Config{Path: "tiny", MemoryLimit: 1}).Create(repository); !errors.Is(err, brock.ErrInvalid) {
		t.Errorf("a limit that is too small: %v", err)
	}
}
