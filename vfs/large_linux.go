package vfs

import "golang.org/x/sys/unix"

// largeFiles lets 32-bit programs open files of 2 GiB and more.
const largeFiles = unix.O_LARGEFILE
