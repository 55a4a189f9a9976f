// Package storagetest takes the place of the storage in memory over which exporterhelper tests its
// queues: each extension keeps its data in a Brock store.
package storagetest

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/extension/xextension/storage"

	"github.com/brockdb/brock/integrations/otelstorage"
)

// NewMockStorageExtension returns a storage whose GetClient returns this error, if not nil.
func NewMockStorageExtension(getClientError error) storage.Extension {
	return NewMockStorageExtensionWithDelay(getClientError, 0)
}

// NewMockStorageExtensionWithDelay is NewMockStorageExtension; each batch takes as long as delay more.
func NewMockStorageExtensionWithDelay(getClientError error, delay time.Duration) storage.Extension {
	return &reopened{refuse: getClientError, delay: delay}
}

// reopened has its store open while it has clients. So a test that closes its client and gets
// another one finds what is in the files, as after a restart of a collector.
type reopened struct {
	component.StartFunc
	component.ShutdownFunc
	refuse error
	delay  time.Duration

	mu      sync.Mutex // guards:
	dir     string
	open    storage.Extension // nil without clients
	clients int
}

func (r *reopened) GetClient(ctx context.Context, kind component.Kind, id component.ID, name string) (storage.Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil {
		return nil, r.refuse
	}
	if err := r.openLocked(ctx); err != nil {
		return nil, err
	}
	c, err := r.open.GetClient(ctx, kind, id, name)
	if err != nil {
		return nil, err
	}
	r.clients++
	return &MockStorageClient{Client: c, of: r}, nil
}

func (r *reopened) openLocked(ctx context.Context) (err error) {
	if r.open != nil {
		return nil
	}
	if r.dir == "" {
		if r.dir, err = os.MkdirTemp("", "brock"); err != nil {
			return err
		}
	}
	f := otelstorage.NewFactory()
	cfg := f.CreateDefaultConfig().(*otelstorage.Config)
	cfg.Directory = r.dir
	var made extension.Extension
	if made, err = f.Create(ctx, extensiontest.NewNopSettings(f.Type()), cfg); err != nil {
		return err
	}
	if err = made.Start(ctx, componenttest.NewNopHost()); err != nil {
		return err
	}
	r.open = made.(storage.Extension)
	return nil
}

// MockStorageClient is a client that knows whether it is closed.
type MockStorageClient struct {
	storage.Client
	of     *reopened
	closed atomic.Bool
}

// Batch is a batch of the store, after the delay.
func (c *MockStorageClient) Batch(ctx context.Context, ops ...*storage.Operation) error {
	if c.of.delay > 0 {
		time.Sleep(c.of.delay)
	}
	return c.Client.Batch(ctx, ops...)
}

// Close closes the client, and the store with its last client.
func (c *MockStorageClient) Close(ctx context.Context) error {
	if c.closed.Swap(true) {
		return nil
	}
	r := c.of
	r.mu.Lock()
	defer r.mu.Unlock()
	err := c.Client.Close(ctx)
	if r.clients--; r.clients == 0 && err == nil {
		err = r.open.Shutdown(ctx)
		r.open = nil
	}
	return err
}

// IsClosed reports whether Close was called.
func (c *MockStorageClient) IsClosed() bool { return c.closed.Load() }
