package otelstorage

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"
)

// typeName is what a configuration calls the extension.
const typeName = "brock_storage"

// NewFactory returns the factory of the extension, whose type is brock_storage. A collector
// registers it with its other extensions. The extensions that it makes implement
// storage.Extension, and their clients storage.Walker.
func NewFactory() extension.Factory {
	return extension.NewFactory(component.MustNewType(typeName), createDefaultConfig, createExtension,
		component.StabilityLevelAlpha)
}

func createExtension(_ context.Context, set extension.Settings, cfg component.Config) (extension.Extension, error) {
	return newExtension(set, cfg.(*Config)), nil
}
