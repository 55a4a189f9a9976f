package main

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/brockdb/brock/bench/internal/kv"
	"github.com/brockdb/brock/bench/internal/result"
)

// newRun describes the machine and the stores; nothing is measured yet.
func newRun(makers []kv.Maker, dir string) *result.Run {
	fs, _ := fileSystem(dir)
	r := &result.Run{
		Format: result.Format, Time: time.Now().UTC().Format(time.RFC3339), Command: os.Args[1:],
		Machine: result.Machine{
			Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Kernel: kernel(), CPU: processor(),
			CPUs: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0), Memory: memoryAvailable(), FileSystem: fs, ClockNs: clockCost(),
		},
	}
	versions := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "CGO_ENABLED" {
				r.Machine.Cgo = s.Value
			}
		}
		for _, d := range info.Deps {
			versions[d.Path] = d.Version
		}
	}
	for _, m := range makers {
		s := result.Store{Name: m.Name, Module: m.Module, Version: m.Version, Setup: m.Setup}
		if s.Version == "" {
			s.Version = versions[m.Module]
		}
		if s.Version == "(devel)" || s.Version == "v0.0.0" {
			s.Version = checkedOut()
		}
		r.Stores = append(r.Stores, s)
	}
	return r
}

// checkedOut names the commit of the working directory, if git knows it: go run
// doesn't say from which one it has built.
func checkedOut() string {
	text, err := exec.Command("git", "describe", "--always", "--dirty", "--tags").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

// noise watches what others do on the machine while a slice is measured.
type noise struct {
	at  time.Time
	all time.Duration // CPU time of the machine
	own time.Duration // and of this process and its children
}

func watchNoise() noise {
	own, _ := processTimes()
	return noise{at: time.Now(), all: machineTimes(), own: own + childTimes()}
}

// other returns the share of all CPUs that others have used since. The machine
// counts in hundredths of a second: a slice shorter than a few of them tells
// nothing, and 0 is returned.
func (n noise) other() float64 {
	now := watchNoise()
	took := now.at.Sub(n.at)
	if took < 100*time.Millisecond {
		return 0
	}
	others := (now.all - n.all) - (now.own - n.own)
	return max(0, others.Seconds()/took.Seconds()/float64(runtime.NumCPU()))
}
