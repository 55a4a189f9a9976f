//go:build !((linux || darwin || freebsd) && (amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64 || s390x))

package vfs

import (
	"errors"
	"os"
)

// mapFile refuses: 32-bit addresses don't suffice, and Windows doesn't let a
// mapped file be truncated or removed.
func mapFile(*os.File, int64) (Mapping, error) { return nil, errors.ErrUnsupported }
