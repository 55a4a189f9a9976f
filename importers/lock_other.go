//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package importers

import "os"

// lockPath opens a file, which fails on Windows while another process has it open for itself. Nothing is
// locked: see to it that no process has the source open.
func lockPath(path string, exclusive bool) (release func(), err error) {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}
