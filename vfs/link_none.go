//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package vfs

import "errors"

// link is not supported: there is no call that looks both names up in open directories.
func link(place, place) error { return errors.ErrUnsupported }
