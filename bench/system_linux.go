package main

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// processTimes returns the CPU time of the process, and how often its threads
// went to sleep of their own accord.
func processTimes() (cpu time.Duration, sleeps int64) {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0, 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()), r.Nvcsw
}

// bytesWritten returns how many bytes the process made dirty or wrote directly,
// as the kernel counts them: pages, each once until it's written back.
func bytesWritten() int64 { return procNumber("/proc/self/io", "write_bytes:") }

// memoryAvailable returns how much memory can be used without swapping.
func memoryAvailable() int64 { return procNumber("/proc/meminfo", "MemAvailable:") << 10 }

// procNumber returns the number behind a field of a /proc file, 0 if there is none.
func procNumber(file, field string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		if f := strings.Fields(s.Text()); len(f) > 1 && f[0] == field {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n
		}
	}
	return 0
}

// flushDisk makes the system write out all that is dirty, so that one store's
// leftovers don't disturb the next.
func flushDisk() { syscall.Sync() }

func blocks(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}
