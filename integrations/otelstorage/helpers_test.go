package otelstorage

import (
	"context"
	"sync"
	"testing"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/extension/xextension/storage"

	"github.com/brockdb/brock/vfs"
)

// exporterKind and exporterID are those of the component that getClient gets clients for.
var (
	exporterKind = component.KindExporter
	exporterID   = component.MustNewID("otlp")
)

func nopSettings() extension.Settings {
	return extensiontest.NewNopSettings(component.MustNewType(typeName))
}

// testConfig returns the default configuration with a directory, changed.
func testConfig(directory string, changes ...func(*Config)) *Config {
	cfg := createDefaultConfig().(*Config)
	cfg.Directory = directory
	for _, change := range changes {
		change(cfg)
	}
	return cfg
}

// start starts an extension, and shuts it down when the test ends.
func start(t testing.TB, cfg *Config) *brockStorage {
	t.Helper()
	return startOn(t, cfg, nil, componenttest.NewNopHost())
}

// startOn is start on another file system, with a host.
func startOn(t testing.TB, cfg *Config, fs vfs.FS, host component.Host) *brockStorage {
	t.Helper()
	s := newExtension(nopSettings(), cfg)
	s.fs = fs
	if err := s.Start(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shutdown(t, s) })
	return s
}

func shutdown(t testing.TB, s *brockStorage) {
	t.Helper()
	if err := s.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// getClient returns the client of an exporter for a signal.
func getClient(t testing.TB, s *brockStorage, signal string) storage.Client {
	t.Helper()
	c, err := s.GetClient(t.Context(), exporterKind, exporterID, signal)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func set(t testing.TB, c storage.Client, key, value string) {
	t.Helper()
	if err := c.Set(t.Context(), key, []byte(value)); err != nil {
		t.Fatal(err)
	}
}

// expect fails the test unless the value of key is want.
func expect(t testing.TB, c storage.Client, key, want string) {
	t.Helper()
	got, err := c.Get(t.Context(), key)
	if err != nil || got == nil || string(got) != want {
		t.Fatalf("%s is %q (nil: %t), %v; want %q", key, got, got == nil, err, want)
	}
}

func expectNone(t testing.TB, c storage.Client, key string) {
	t.Helper()
	if got, err := c.Get(t.Context(), key); err != nil || got != nil {
		t.Fatalf("%s is %q, %v; want none", key, got, err)
	}
}

// statusHost keeps the status that was reported last.
type statusHost struct {
	component.Host
	mu      sync.Mutex // guards:
	last    componentstatus.Status
	err     error
	changed chan struct{} // closed at the next change
}

func newStatusHost() *statusHost {
	return &statusHost{Host: componenttest.NewNopHost(), changed: make(chan struct{})}
}

// Report implements componentstatus.Reporter.
func (h *statusHost) Report(e *componentstatus.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last, h.err = e.Status(), e.Err()
	close(h.changed)
	h.changed = make(chan struct{})
}

// await waits for a status, and returns its error.
func (h *statusHost) await(t testing.TB, want componentstatus.Status) error {
	t.Helper()
	for {
		h.mu.Lock()
		last, err, changed := h.last, h.err, h.changed
		h.mu.Unlock()
		if last == want {
			return err
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatalf("the status is %v, and not %v", last, want)
		}
	}
}
