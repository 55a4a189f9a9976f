// Package storagetest: this file takes the place of the client in memory, so that the tests of
// the package run over Brock stores.
package storagetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/extension/xextension/storage"

	"github.com/brockdb/brock/integrations/otelstorage"
)

// TestClient is a client with a store of its own, which it closes.
type TestClient struct {
	storage.Client
	store storage.Extension
}

// NewInMemoryClient returns a client whose data no other client has.
func NewInMemoryClient(kind component.Kind, id component.ID, name string) *TestClient {
	dir, err := os.MkdirTemp("", "brock")
	if err != nil {
		panic(err)
	}
	return NewFileBackedClient(kind, id, name, dir)
}

// NewFileBackedClient returns a client whose data stays in the directory.
func NewFileBackedClient(kind component.Kind, id component.ID, name, storageDir string) *TestClient {
	ctx := context.Background()
	f := otelstorage.NewFactory()
	cfg := f.CreateDefaultConfig().(*otelstorage.Config)
	cfg.Directory = filepath.Join(storageDir, fmt.Sprintf("%s_%s_%s", kind, id, name))
	cfg.CreateDirectory = true
	made, err := f.Create(ctx, extensiontest.NewNopSettings(f.Type()), cfg)
	if err != nil {
		panic(err)
	}
	if err := made.Start(ctx, componenttest.NewNopHost()); err != nil {
		panic(err)
	}
	store := made.(storage.Extension)
	c, err := store.GetClient(ctx, kind, id, name)
	if err != nil {
		panic(err)
	}
	return &TestClient{Client: c, store: store}
}

// Walk walks over the store.
func (c *TestClient) Walk(ctx context.Context, fn storage.WalkFunc) error {
	return c.Client.(storage.Walker).Walk(ctx, fn)
}

// Close closes the client and its store.
func (c *TestClient) Close(ctx context.Context) error {
	if err := c.Client.Close(ctx); err != nil {
		return err
	}
	return c.store.Shutdown(ctx)
}

const creatorKey = "creator"

func setCreatorID(ctx context.Context, c storage.Client, id component.ID) error {
	return c.Set(ctx, creatorKey, []byte(id.String()))
}

// CreatorID returns the ID that setCreatorID has stored.
func CreatorID(ctx context.Context, c storage.Client) (id component.ID, err error) {
	text, err := c.Get(ctx, creatorKey)
	if err != nil || text == nil {
		return id, err
	}
	return id, id.UnmarshalText(text)
}
