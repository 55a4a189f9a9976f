package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/brockdb/brock/bench/internal/kv"
)

const (
	reopenBytes = 64 << 20
	idleKeys    = 1000

	childVariable = "BROCK_BENCH_CHILD"
)

func lifeWorkloads() []Workload {
	return []Workload{
		{
			Name:    "reopen",
			Title:   "values of %d B, opening after kill -9 behind 64 MB of buffered writes, until the first get; then closing",
			Figures: []Figure{{Name: "open ms", Better: Less}, {Name: "close ms"}, {Name: "disk MB"}, {Name: "pairs lost"}},
			Kind:    Fresh, Run: runReopen,
		},
		{
			Name:  "empty",
			Title: "an empty store: creating it, and the size of its files",
			Figures: []Figure{
				{Name: "open ms", Better: Less}, {Name: "files KB", Better: Less}, {Name: "on disk KB"}, {Name: "closed: files KB"}, {Name: "on disk KB"},
			},
			Kind: Once, Run: runEmpty,
		},
		{
			Name:    "idle",
			Title:   "an open store that nobody uses, over 5 s, less what an empty Go program needs",
			Figures: []Figure{{Name: "goroutines", Better: Less}, {Name: "CPU us/s"}, {Name: "wake-ups/s"}},
			Kind:    Once, Run: runIdle,
		},
	}
}

// childTask is what the process is asked to do when it is started as a child.
type childTask struct {
	Task   string // "write", "idle", "memory" or "cold"
	Store  string // "" for none
	Config kv.Config
	Keys   int
	Waits  Waits
	Memory memoryTask
	Cold   ColdTask
}

// runChild does the task in the environment, if there is one, and never
// returns then.
func runChild() {
	text := os.Getenv(childVariable)
	if text == "" {
		return
	}
	var t childTask
	err := json.Unmarshal([]byte(text), &t)
	switch {
	case err != nil:
	case t.Task == "write":
		err = childWrite(t)
	case t.Task == "memory":
		err = childMemory(t.Memory)
	case t.Task == "cold":
		err = childCold(t)
	default:
		err = childIdle(t)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// child prepares this program to run the task.
func child(t childTask) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// runReopen has a child write, kills it while its store is open, and opens the
// store that it left.
func runReopen(c *Cell) ([]float64, error) {
	data := NewDataset(max(1, min(c.Data.Keys, reopenBytes/(keySize+c.Data.ValueSize))), c.Data.ValueSize)
	config := kv.Config{Dir: c.Dir, ValueSize: data.ValueSize, DataBytes: data.RawBytes()}
	cmd, err := child(childTask{Task: "write", Store: c.Maker.Name, Config: config, Keys: data.Keys, Waits: c.Waits})
	if err != nil {
		return nil, err
	}
	done, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	_, readErr := done.Read(make([]byte, 1))
	killErr := cmd.Process.Kill()
	waitErr := cmd.Wait()
	if readErr != nil {
		return nil, errors.Join(readErr, waitErr)
	}
	if killErr != nil {
		return nil, killErr
	}
	c.Waits.flushDisk()
	settle()
	start := time.Now()
	s, err := c.Maker.Open(config)
	if err != nil {
		return nil, err
	}
	_, _, err = s.Get(data.AppendKey(nil, data.Keys-1))
	opened := time.Since(start)
	lost := 0
	if err == nil {
		lost, err = data.lost(s)
	}
	closing := time.Now()
	if err := errors.Join(err, s.Close()); err != nil {
		return nil, err
	}
	closed := time.Since(closing)
	apparent, _, err := diskSize(c.Dir)
	return []float64{millis(opened), millis(closed), float64(apparent) / (1 << 20), float64(lost)}, err
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// childWrite fills a store, says so with one byte, and waits to be killed.
func childWrite(t childTask) error {
	s, err := kv.Open(t.Store, t.Config)
	if err != nil {
		return err
	}
	data := NewDataset(t.Keys, t.Config.ValueSize)
	if err := data.Load(s); err != nil {
		return err
	}
	// Pebble hands most of its buffered log to the system a little later.
	if _, err := t.Waits.idle(); err != nil {
		return err
	}
	fmt.Print("w")
	select {}
}

func runEmpty(c *Cell) ([]float64, error) {
	settle()
	start := time.Now()
	s, err := c.Maker.Open(kv.Config{Dir: c.Dir})
	if err != nil {
		return nil, err
	}
	opened := time.Since(start)
	files, disk, err := diskSize(c.Dir)
	if err := errors.Join(err, s.Close()); err != nil {
		return nil, err
	}
	closedFiles, closedDisk, err := diskSize(c.Dir)
	const kb = 1 << 10
	return []float64{
		millis(opened), float64(files) / kb, float64(disk) / kb, float64(closedFiles) / kb, float64(closedDisk) / kb,
	}, err
}

// idleReport is what a child says of its rest.
type idleReport struct {
	Goroutines int
	CPU        time.Duration // a second
	Sleeps     float64       // voluntary context switches a second
}

func runIdle(c *Cell) ([]float64, error) {
	with, err := idleChild(childTask{Task: "idle", Store: c.Maker.Name, Config: kv.Config{Dir: c.Dir, ValueSize: commitValue}, Keys: idleKeys, Waits: c.Waits})
	if err != nil {
		return nil, err
	}
	without, err := idleChild(childTask{Task: "idle", Waits: c.Waits})
	return []float64{
		float64(with.Goroutines - without.Goroutines),
		max(0, float64((with.CPU-without.CPU).Nanoseconds())/1e3),
		max(0, with.Sleeps-without.Sleeps),
	}, err
}

func idleChild(t childTask) (r idleReport, err error) {
	cmd, err := child(t)
	if err != nil {
		return r, err
	}
	out, err := cmd.Output()
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(out, &r)
}

// childIdle opens a store with a few keys, lets it come to rest and watches
// what the process still does.
func childIdle(t childTask) error {
	var s kv.Store
	if t.Store != "" {
		var err error
		if s, err = kv.Open(t.Store, t.Config); err != nil {
			return err
		}
		data := NewDataset(t.Keys, t.Config.ValueSize)
		if err := data.Load(s); err != nil {
			return err
		}
		if _, err := t.Waits.quiet(s); err != nil {
			return err
		}
		if err := getPresent(s, data.AppendKey(nil, rand.IntN(t.Keys))); err != nil {
			return err
		}
	}
	debug.FreeOSMemory() // so that the runtime has nothing left to tidy up
	time.Sleep(t.Waits.Settle)
	cpu, sleeps := processTimes()
	time.Sleep(t.Waits.Watch)
	cpuAfter, sleepsAfter := processTimes()
	r := idleReport{
		Goroutines: runtime.NumGoroutine(),
		CPU:        time.Duration(float64(cpuAfter-cpu) / t.Waits.Watch.Seconds()),
		Sleeps:     float64(sleepsAfter-sleeps) / t.Waits.Watch.Seconds(),
	}
	if s != nil {
		if err := s.Close(); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}
