// Package filestorage: this file takes the place of the client that has a bbolt file, so that
// tests of the package run over Brock stores. What belongs to bbolt alone is there, so that the
// tests of that compile; they are not run.
package filestorage

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"

	"github.com/brockdb/brock/integrations/otelstorage"
)

// TempDbPrefix and the names below are those that other files and tests of the package use.
const (
	TempDbPrefix = "tempdb"
	oneMiB       = 1 << 20
)

var defaultBucket = []byte("default")

type fileStorageClient struct {
	storage.Client
	store storage.Extension

	compactionMutex sync.RWMutex
	db              *bbolt.DB
	dbOptions       bbolt.Options
}

// newClient opens the store in the directory of this name.
func newClient(_ *zap.Logger, path string, cfg *Config) (*fileStorageClient, error) {
	ctx := context.Background()
	f := otelstorage.NewFactory()
	c := f.CreateDefaultConfig().(*otelstorage.Config)
	c.Directory, c.Timeout = path, cfg.Timeout
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	made, err := f.Create(ctx, extensiontest.NewNopSettings(f.Type()), c)
	if err != nil {
		return nil, err
	}
	if err := made.Start(ctx, componenttest.NewNopHost()); err != nil {
		return nil, err
	}
	store := made.(storage.Extension)
	client, err := store.GetClient(ctx, component.KindReceiver, component.MustNewID("any"), "")
	if err != nil {
		return nil, err
	}
	return &fileStorageClient{Client: client, store: store}, nil
}

func (c *fileStorageClient) Walk(ctx context.Context, fn storage.WalkFunc) error {
	return c.Client.(storage.Walker).Walk(ctx, fn)
}

func (c *fileStorageClient) Close(ctx context.Context) error {
	if err := c.Client.Close(ctx); err != nil {
		return err
	}
	return c.store.Shutdown(ctx)
}

var errBbolt = errors.New("only bbolt has this")

func (*fileStorageClient) Compact(string, time.Duration, int64) error { return errBbolt }

func (*fileStorageClient) getDbSize() (total, data int64, err error) { return 0, 0, errBbolt }
