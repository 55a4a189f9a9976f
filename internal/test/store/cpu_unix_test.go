//go:build unix

package store

import (
	"syscall"
	"time"
)

// spent is the processor time that this process has taken, which other work on the
// machine doesn't change much.
func spent() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
