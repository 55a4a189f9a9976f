//go:build unix

package process

import (
	"syscall"
	"time"
)

// ReadProcessorTime returns the processor time that this process has taken, which other work on the
// machine doesn't change much.
func ReadProcessorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
