//go:build !linux && !darwin

package vfs

import "errors"

// exchange is not supported: no call does it without a moment in which a name is missing.
func exchange(a, b place) error { return exchangeError(a, b, errors.ErrUnsupported, true) }
