//go:build !linux && !darwin

package vfs

import "errors"

func exchange(a, b place) error { return exchangeError(a, b, errors.ErrUnsupported, true) }
