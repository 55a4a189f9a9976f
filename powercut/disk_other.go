//go:build !linux

package main

import "fmt"

// disk needs a loop device.
type disk struct{ device string }

var errLinux = fmt.Errorf("%w: it is not Linux", errUnable)

func attach(*recording, string) (*disk, error) { return nil, errLinux }
func (*disk) detach() error                    { return errLinux }
func format(_, _, _ string, _ int) error       { return errLinux }
func mount(_, _, _, _ string) error            { return errLinux }
func unmount(string) error                     { return errLinux }
