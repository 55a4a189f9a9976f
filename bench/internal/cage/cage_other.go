//go:build !linux

package cage

import "fmt"

// Cage can't be had here.
type Cage struct{}

// New returns ErrUnavailable.
func New(limit int64) (*Cage, error) { return nil, fmt.Errorf("%w: this is not Linux", ErrUnavailable) }

func (*Cage) Add(pid int) error { return ErrUnavailable }
func (*Cage) Remove() error     { return ErrUnavailable }

// Clean does nothing.
func Clean() {}

// DropCaches returns ErrUnavailable.
func DropCaches() error { return ErrUnavailable }
