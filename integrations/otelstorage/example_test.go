package otelstorage_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/extension/xextension/storage"

	"github.com/brockdb/brock/integrations/otelstorage"
)

// useStorage is the code in README.md. A collector does the first half; a component begins at
// GetClient.
func useStorage(ctx context.Context, dir string) error {
	factory := otelstorage.NewFactory()
	config := factory.CreateDefaultConfig().(*otelstorage.Config)
	config.Directory = dir
	ext, err := factory.Create(ctx, extensiontest.NewNopSettings(factory.Type()), config)
	if err != nil {
		return err
	}
	if err := ext.Start(ctx, componenttest.NewNopHost()); err != nil {
		return err
	}
	defer ext.Shutdown(ctx)
	client, err := ext.(storage.Extension).GetClient(ctx, component.KindReceiver, component.MustNewID("filelog"), "")
	if err != nil {
		return err
	}
	defer client.Close(ctx)
	last := storage.GetOperation("offset")
	if err := client.Batch(ctx, last, storage.SetOperation("offset", []byte("4711"))); err != nil {
		return err
	}
	fmt.Printf("was %q\n", last.Value)
	return nil
}

func ExampleNewFactory() {
	dir, err := os.MkdirTemp("", "brock")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for range 2 {
		if err := useStorage(context.Background(), dir); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// was ""
	// was "4711"
}
