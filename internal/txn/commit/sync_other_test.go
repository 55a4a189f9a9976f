//go:build !linux

package commit

import "os"

func syncData(f *os.File) error { return f.Sync() }
