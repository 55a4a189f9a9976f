// Package cage limits the memory of processes, page cache included, by a cgroup
// of their own, version 1 or 2. That takes root, on Linux.
package cage

import "errors"

// ErrUnavailable is in every error of New: there can be no cage here, and the
// error says why.
var ErrUnavailable = errors.New("memory can't be limited here")
