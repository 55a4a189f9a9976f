package main

import (
	"bufio"
	"bytes"
	"fmt"
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
	r := resources(syscall.RUSAGE_SELF)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()), r.Nvcsw
}

// childTimes returns the CPU time of child processes that have ended.
func childTimes() time.Duration {
	r := resources(syscall.RUSAGE_CHILDREN)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// majorFaults counts page faults that had to read from the disk.
func majorFaults() int64 { return int64(resources(syscall.RUSAGE_SELF).Majflt) }

func resources(who int) (r syscall.Rusage) {
	if syscall.Getrusage(who, &r) != nil {
		return syscall.Rusage{}
	}
	return r
}

// machineTimes returns the CPU time that all processes used, and what the host
// took away.
func machineTimes() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	const idle, iowait, guest = 3, 4, 8 // counted from user = 0; guest is in user already
	var ticks int64
	for i, f := range strings.Fields(line)[1:] {
		if n, err := strconv.ParseInt(f, 10, 64); err == nil && i != idle && i != iowait && i < guest {
			ticks += n
		}
	}
	return time.Duration(ticks) * (time.Second / 100) // USER_HZ is 100 on all that Go runs on
}

// bytesWritten returns how many bytes the process made dirty or wrote directly,
// as the kernel counts them: pages, each once until it's written back.
func bytesWritten() int64 { return procNumber("/proc/self/io", "write_bytes:") }

// bytesRead returns how many bytes were read from the disk for the process.
func bytesRead() int64 { return procNumber("/proc/self/io", "read_bytes:") }

// memoryAvailable returns how much memory can be used without swapping.
func memoryAvailable() int64 { return procNumber("/proc/meminfo", "MemAvailable:") << 10 }

// procNumber returns the number behind a field of a /proc file, 0 if there is none.
func procNumber(file, field string) int64 {
	n, _ := strconv.ParseInt(strings.Fields(procText(file, field) + " 0")[0], 10, 64)
	return n
}

// procText returns what stands behind a field of a /proc file.
func procText(file, field string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), field); ok {
			return strings.TrimSpace(strings.TrimLeft(rest, ": \t"))
		}
	}
	return ""
}

// kernel and processor name the machine.
func kernel() string {
	text, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return strings.TrimSpace(string(text))
}

func processor() string { return procText("/proc/cpuinfo", "model name") }

// fileSystem names the file system of a directory and returns its free bytes.
func fileSystem(dir string) (name string, free int64) {
	var st syscall.Statfs_t
	if syscall.Statfs(dir, &st) != nil {
		return "", 0
	}
	names := map[int64]string{0xef53: "ext4", 0x58465342: "xfs", 0x9123683e: "btrfs", 0x01021994: "tmpfs", 0x2fc12fc1: "zfs", 0x794c7630: "overlayfs"}
	name = names[int64(st.Type)]
	if name == "" {
		name = fmt.Sprintf("type %#x", st.Type)
	}
	return name, int64(st.Bavail) * int64(st.Bsize)
}

// flushDisk writes all dirty pages of the system to the disk.
func flushDisk() { syscall.Sync() }

func blocks(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}
