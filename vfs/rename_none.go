//go:build !linux && !darwin

package vfs

import "errors"

const renameNoReplace, renameExchange = 0, 0

// renameFlags is not supported: Rename looks first, and no calls exchange two names without a
// moment in which one is missing.
func renameFlags(op string, from, _ place, _ uint) error {
	return pathError(op, from.path, errors.ErrUnsupported)
}
