//go:build !linux

package main

import (
	"io/fs"
	"math"
	"time"
)

// Elsewhere than on Linux only times and sizes are measured: CPU, wake-ups and
// bytes written are 0, and so is what /proc would say.

func processTimes() (cpu time.Duration, sleeps int64) { return 0, 0 }
func childTimes() time.Duration                       { return 0 }
func machineTimes() time.Duration                     { return 0 }
func majorFaults() int64                              { return 0 }
func bytesWritten() int64                             { return 0 }
func bytesRead() int64                                { return 0 }
func memoryAvailable() int64                          { return math.MaxInt64 }
func flushDisk()                                      {}
func procNumber(file, field string) int64             { return 0 }
func kernel() string                                  { return "" }
func processor() string                               { return "" }
func fileSystem(dir string) (name string, free int64) { return "", math.MaxInt64 }
func blocks(info fs.FileInfo) int64                   { return info.Size() }
