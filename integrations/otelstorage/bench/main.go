// Command bench compares brock_storage with file_storage, which has a bbolt file for each client,
// under a persistent queue: it fills the queue, puts and takes at that length, drains it, and says
// how fast each tenth of that was and what it cost, how much memory it took, and how large the files
// are.
//
//	go run . -gb 1
//	go run . -gb 20 -memory 2048    # 20 GB in a cgroup of 2 GB, as root
//	go run . -gb 1 -kill            # kill -9 in the middle of the drain
//
// Each run is a process of its own, which does what exporterhelper's queue does with its storage:
// one batch at a time, under a lock. A put writes the item and the metadata, a take writes the
// metadata and reads the item, and when the item is sent, a batch writes the metadata and deletes it.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// settings are those of one run, which is a child process.
type settings struct {
	Store  string // brock or file_storage
	Dir    string // of the files; empty at first
	Size   int    // of an item, in bytes
	Items  int    // length of the queue when it is full
	Limit  int64  // memory_limit_mib of brock
	Synced bool   // each batch is synced
	Rested int    // seconds of rest at the end, for work in the background

	Killed bool    // the process is killed in the middle of the drain
	After  *result // of the process that was killed: this one goes on
}

// part is a tenth of a fill or a drain. CPU and Written depend little on how busy the machine is.
type part struct {
	Rate    float64 // items a second
	CPU     float64 // microseconds of processor time of an item, work in the background included; 0 = not known
	Written float64 // bytes given to the system to write, of an item; 0 = not known
}

// result is what a child prints, as JSON.
type result struct {
	Fill, Drain [tenths]part
	Both        float64 // items a second, put and taken with a full queue
	Anon, RSS   int64   // greatest memory, in bytes
	Full        int64   // bytes of files when the queue is full
	Drained     int64   // when it is empty
	AtRest      int64   // and after the rest

	Read, Write uint64  // items that were taken and put so far
	Reopen      float64 // seconds until the storage was open and an item read, after kill -9
}

// tenths are the parts of a fill and a drain that are timed.
const tenths = 10

func main() {
	gb := flag.Float64("gb", 1, "size of the full queue, in `GB`")
	sizes := flag.String("sizes", "1,10,100", "sizes of an item, in `KB`")
	stores := flag.String("stores", "brock,file_storage", "storages, the first one is compared with the others")
	memory := flag.Int64("memory", 0, "size of the cgroup of each run, in `MiB`; 0 = no cgroup; needs root")
	limit := flag.Int64("limit", 64, "memory_limit_mib of brock")
	synced := flag.Bool("synced", false, "sync each batch: durability synced, and fsync true")
	rested := flag.Int("rest", 15, "`seconds` of rest at the end")
	dir := flag.String("dir", "", "directory for files; default: a temporary one")
	kill := flag.Bool("kill", false, "kill -9 each process in the middle of the drain; another one goes on")
	child := flag.String("child", "", "used by the program itself")
	flag.Parse()
	if *child != "" {
		exit(runChild(*child))
	}
	exit(compare(*gb, *sizes, *stores, *memory, *dir, settings{Limit: *limit, Synced: *synced, Rested: *rested, Killed: *kill}))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// compare runs all storages with all sizes and prints a table for each size.
func compare(gb float64, sizes, stores string, memory int64, dir string, s settings) (err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "otelstorage"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	for _, text := range strings.Split(sizes, ",") {
		kb, err := strconv.Atoi(text)
		if err != nil || kb < 1 {
			return fmt.Errorf("size %q: %w", text, errors.Join(err, strconv.ErrRange))
		}
		s.Size = kb << 10
		s.Items = max(int(gb*1e9)/s.Size/tenths*tenths, tenths)
		names := strings.Split(stores, ",")
		results := make([]result, len(names))
		for i, name := range names {
			s.Store, s.Dir = name, filepath.Join(dir, name+"-"+text)
			if results[i], err = runStore(s, memory); err != nil {
				return fmt.Errorf("%s with items of %d KB: %w", name, kb, err)
			}
		}
		printTable(names, results, s)
	}
	return nil
}

// runStore does one run with new files, in one process, or in two if the first one is killed.
func runStore(s settings, memory int64) (r result, err error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.Dir)) }()
	r, err = runProcess(s, memory)
	if s.Killed && err == nil {
		s.Killed, s.After = false, &r
		r, err = runProcess(s, memory)
	}
	return r, err
}

// runProcess runs a child, in a cgroup of so many MiB if memory is not 0.
func runProcess(s settings, memory int64) (r result, err error) {
	text, err := json.Marshal(s)
	if err != nil {
		return r, err
	}
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	cmd := exec.Command(self, "-child", string(text))
	cmd.Stderr = os.Stderr
	if memory > 0 {
		group, err := newGroup(memory << 20)
		if err != nil {
			return r, err
		}
		defer group.remove()
		cmd.Env = append(os.Environ(), groupVariable+"="+group.procs())
	}
	out, err := cmd.Output()
	// One that is to be killed prints its result before.
	var exit *exec.ExitError
	if killed := errors.As(err, &exit) && exit.ExitCode() == -1; err != nil && !(s.Killed && killed) {
		return r, err
	}
	return r, json.Unmarshal(out, &r)
}

// printTable prints the results of one size, a line for each storage, and then the ratios of the
// first storage to each other: above 1, the first one is better.
func printTable(names []string, results []result, s settings) {
	const mb = 1e6
	fmt.Printf("\n%d items of %d KB, synced: %t\n", s.Items, s.Size>>10, s.Synced)
	fmt.Printf("%-14s", "")
	for _, column := range []string{"fill/s", "last 1/10", "put+take", "drain/s", "last 1/10", "anon MB", "full MB", "empty MB", "rest MB"} {
		fmt.Printf(" %9s", column)
	}
	fmt.Println()
	row := func(r result) []float64 {
		return []float64{mean(r.Fill), r.Fill[tenths-1].Rate, r.Both, mean(r.Drain), r.Drain[tenths-1].Rate,
			float64(r.Anon) / mb, float64(r.Full) / mb, float64(r.Drained) / mb, float64(r.AtRest) / mb}
	}
	for i, name := range names {
		fmt.Printf("%-14s", name)
		for _, v := range row(results[i]) {
			fmt.Printf(" %9.0f", v)
		}
		fmt.Println()
	}
	for i := 1; i < len(names); i++ {
		fmt.Printf("%-14s", "ratio")
		first, other := row(results[0]), row(results[i])
		for j := range first {
			ratio := first[j] / other[j]
			if j > 4 { // of memory and disk, less is better
				ratio = 1 / ratio
			}
			fmt.Printf(" %9.2f", ratio)
		}
		fmt.Println()
	}
	for i, name := range names {
		fill, drain := results[i].Fill, results[i].Drain
		printTenths(name, "fill/s", fill, func(p part) float64 { return p.Rate })
		printTenths("", "drain/s", drain, func(p part) float64 { return p.Rate })
		printTenths("", "drain CPU, us/item", drain, func(p part) float64 { return p.CPU })
		printTenths("", "drain written, B/item", drain, func(p part) float64 { return p.Written })
		if results[i].Reopen > 0 {
			fmt.Printf("%-14s killed in the middle of the drain, goes on after %.2f s\n", "", results[i].Reopen)
		}
	}
}

// printTenths prints one line, with a number for each tenth.
func printTenths(name, what string, parts [tenths]part, of func(part) float64) {
	fmt.Printf("%-14s %-21s", name, what)
	for _, p := range parts {
		fmt.Printf(" %6.0f", of(p))
	}
	fmt.Println()
}

// mean is the rate of all tenths, which have as many items each.
func mean(parts [tenths]part) float64 {
	var time float64
	for _, p := range parts {
		time += 1 / p.Rate
	}
	return tenths / time
}
