//go:build !((linux || darwin || freebsd) && (amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64 || s390x))

package vfs

import (
	"errors"
	"os"
)

// mapFile is not supported: 32-bit programs have too few addresses, and Windows doesn't truncate
// or remove a file that is mapped.
func mapFile(*os.File, int64) (Mapping, error) { return nil, errors.ErrUnsupported }
