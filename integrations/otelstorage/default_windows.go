package otelstorage

import (
	"os"
	"path/filepath"
)

func defaultDirectory() string {
	return filepath.Join(os.Getenv("ProgramData"), "Otelcol", typeName)
}
