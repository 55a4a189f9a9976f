//go:build !linux

package main

import "errors"

// disk needs a loop device.
type disk struct{ device string }

var errLinux = errors.New("it is not Linux")

func attach(*recording, string) (*disk, error) { return nil, errLinux }
func (*disk) detach() error                    { return errLinux }
func format(_, _, _ string, _ int) error       { return errLinux }
func mount(_, _, _, _ string) error            { return errLinux }
func unmount(string) error                     { return errLinux }
