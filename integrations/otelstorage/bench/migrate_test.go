package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/extension/xextension/storage"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"

	"github.com/brockdb/brock/integrations/otelstorage"
)

// What components have kept in file_storage, of whatever names, is there when they come to brock_storage
// with migrate_from, and a queue goes on where it was. No file of file_storage changes.
func TestMigrate(t *testing.T) {
	t.Parallel()
	source := t.TempDir()
	owners := []owner{{component.KindExporter, component.MustNewID("otlp"), "logs"}}
	for _, kind := range []component.Kind{component.KindReceiver, component.KindProcessor, component.KindExporter,
		component.KindExtension, component.KindConnector} {
		for _, id := range []component.ID{component.MustNewID("a"), component.MustNewIDWithName("a", "b_c"),
			component.MustNewIDWithName("a", "b/ü~c"), component.MustNewIDWithName("a", strings.Repeat("long", 100))} {
			for _, name := range []string{"", "x", "x y"} {
				owners = append(owners, owner{kind, id, name})
			}
		}
	}
	// All have the queue of the benchmark, with items of a size of their own.
	const items, taken = 20, 5
	size := func(i int) int { return 100 + i }
	old := startExtension(t, filestorage.NewFactory(), func(cfg component.Config) {
		c := cfg.(*filestorage.Config)
		c.Directory = source
	})
	queues := make([]*queue, len(owners))
	for i, o := range owners {
		q := newQueue(o.client(t, old), size(i))
		queues[i] = q
		for range items {
			must(t, q.put(t.Context()))
		}
		for range taken {
			must(t, q.take(t.Context()))
		}
		must(t, q.client.Close(t.Context()))
	}
	before := sums(t, source)
	s := startExtension(t, otelstorage.NewFactory(), func(cfg component.Config) {
		c := cfg.(*otelstorage.Config)
		c.Directory, c.MigrateFrom = t.TempDir(), source
	})
	for i, o := range owners {
		q := queues[i]
		q.client = o.client(t, s)
		if meta, err := q.client.Get(t.Context(), "qmv0"); err != nil || string(meta) != string(q.metadata().Value) {
			t.Fatalf("%v: the metadata is %q, %v", o, meta, err)
		}
		for range items - taken {
			must(t, q.take(t.Context()))
		}
	}
	if !maps.Equal(before, sums(t, source)) {
		t.Fatal("a file of file_storage has changed")
	}
}

// owner is a component that has a storage.
type owner struct {
	kind component.Kind
	id   component.ID
	name string
}

func (o owner) client(t *testing.T, ext extension.Extension) storage.Client {
	t.Helper()
	c, err := ext.(storage.Extension).GetClient(t.Context(), o.kind, o.id, o.name)
	if err != nil {
		t.Fatalf("%v: %v", o, err)
	}
	return c
}

func startExtension(t *testing.T, f extension.Factory, configure func(component.Config)) extension.Extension {
	t.Helper()
	cfg := f.CreateDefaultConfig()
	configure(cfg)
	ext, err := f.Create(t.Context(), extensiontest.NewNopSettings(f.Type()), cfg)
	must(t, err)
	must(t, ext.Start(t.Context(), componenttest.NewNopHost()))
	t.Cleanup(func() { must(t, ext.Shutdown(context.Background())) })
	return ext
}

// sums returns what is known of the files of a directory: their sums and times.
func sums(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must(t, err)
		info, err := e.Info()
		must(t, err)
		all[e.Name()] = fmt.Sprint(sha256.Sum256(content), info.ModTime())
	}
	return all
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
