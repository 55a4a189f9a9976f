//go:build unix && !linux

package vfs

const largeFiles = 0 // every program can open files of any size
