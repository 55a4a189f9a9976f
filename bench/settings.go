package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/brockdb/brock/bench/internal/kv"
	"github.com/brockdb/brock/bench/internal/result"
)

// settings are the flags.
type settings struct {
	stores, workloads, values, counts  string
	slices, ops                        int
	full, smoke, quiet                 bool
	large, coldMB, coldMemory, coldOwn int64
	coldValue                          int
	dir, json, from                    string
	report, readme, compare            string
	readmeValue                        int
	tolerance                          float64
	memory                             string
	times                              int
}

// scale has the defaults of flags.
type scale struct {
	workloads      string
	values, counts string
	ops            int
	large          int64 // MB of large values
	cold           int64 // MB of data that is larger than memory
}

var (
	small = scale{
		workloads: "load,get,get16,miss,scan,seek,ycsbA,ycsbC,ycsbE,coldget16,commit1,commit64,large",
		values:    "128,1024", counts: "200k,100k", ops: 50_000, large: 128, cold: 768,
	}
	// The counts of badger-bench, whose authors had 64 GB of memory.
	full = scale{workloads: "all", values: "128,1024,16384", counts: "250M,75M,5M", ops: 1_000_000, large: 4096, cold: 4096}
	tiny = scale{workloads: "all", values: "1024", counts: "2000", ops: 500, large: 6, cold: 16}
)

func parseSettings(args []string, stderr io.Writer) (*settings, error) {
	s := &settings{}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&s.stores, "stores", "all", "stores, with commas between: "+kv.Names(kv.Makers()))
	f.StringVar(&s.workloads, "workloads", "", "workloads, each by its name or the beginning of it, with commas between, or all: "+workloadNames()+" (default: "+small.workloads+"; with -full all)")
	f.StringVar(&s.values, "values", "", "sizes of values in bytes (default: "+small.values+"; with -full "+full.values+")")
	f.StringVar(&s.counts, "counts", "", "pairs of each size of values, k and M allowed; one for all, or one for each (default: "+small.counts+"; with -full "+full.counts+")")
	f.IntVar(&s.slices, "slices", 5, "measurements of each workload on each store; figures are their medians")
	f.IntVar(&s.ops, "ops", 0, fmt.Sprintf("timed calls in a slice (default: %d; with -full %d)", small.ops, full.ops))
	f.BoolVar(&s.full, "full", false, "the scale of badger-bench: days, and hundreds of GB, unless -counts says less")
	f.BoolVar(&s.smoke, "smoke", false, "so little of everything that figures mean nothing: shows that it runs")
	f.Int64Var(&s.large, "large-mb", 0, "MB of large values")
	f.Int64Var(&s.coldMB, "cold-mb", 0, fmt.Sprintf("MB of data that is larger than memory (default: %d; with -full %d)", small.cold, full.cold))
	f.Int64Var(&s.coldMemory, "cold-memory-mb", 0, "MB of memory for the processes that read it, page cache included (default: a quarter of -cold-mb)")
	f.Int64Var(&s.coldOwn, "cold-own-mb", 0, "MB of it that each process has on its own heap beside the store")
	f.IntVar(&s.coldValue, "cold-value", 1024, "bytes of its values")
	f.StringVar(&s.dir, "dir", "", "directory for the stores; they go into a new one inside (default: the system's temporary directory)")
	f.StringVar(&s.json, "json", "", "file for the results of every slice")
	f.StringVar(&s.from, "from", "", "measure nothing, take the results from this file")
	f.StringVar(&s.report, "report", "", "directory for a report in Markdown with charts")
	f.StringVar(&s.readme, "readme", "", "with -report: a Markdown file whose figures are replaced by a chart and a short table")
	f.IntVar(&s.readmeValue, "readme-value", 1024, "bytes of values in that table")
	f.StringVar(&s.compare, "compare", "", "results of an older run (-json): exits with status 3 if the first store has become worse")
	f.Float64Var(&s.tolerance, "tolerance", 0.1, "with -compare: how much worse a figure may be; 0.1 is a tenth")
	f.StringVar(&s.memory, "memory", "", "measure only Brock's anonymous memory, at these MemoryLimits in MB, with commas between")
	f.IntVar(&s.times, "times", 100, "with -memory: bytes to write, as a multiple of MemoryLimit")
	f.BoolVar(&s.quiet, "quiet", false, "print tables only, no progress")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q is no flag", f.Arg(0))
	}
	if s.slices < 1 || s.ops < 0 || s.large < 0 || s.coldMB < 0 || s.coldMemory < 0 || s.coldOwn < 0 || s.coldValue < 1 {
		return nil, errors.New("-slices, -ops and sizes must be positive")
	}
	if s.readme != "" && s.report == "" {
		return nil, errors.New("-readme needs -report, which it links to")
	}
	return s, nil
}

func (s *settings) scale() scale {
	switch {
	case s.smoke:
		return tiny
	case s.full:
		return full
	}
	return small
}

// plan says what is to be done, and makes a directory for it.
func (s *settings) plan(stderr io.Writer) (plan Plan, err error) {
	d := s.scale()
	plan = Plan{Slices: s.slices, Ops: cmp.Or(s.ops, d.ops), Large: cmp.Or(s.large, d.large) << 20, Log: stderr, Waits: fullWaits()}
	if s.smoke {
		plan.Waits = tinyWaits()
	}
	if s.full {
		plan.Waits.ColdWarm, plan.Waits.ColdSlice = 2*plan.Waits.ColdWarm, 2*plan.Waits.ColdSlice
	}
	if s.quiet {
		plan.Log = io.Discard
	}
	if plan.Makers, err = kv.Pick(s.stores); err != nil {
		return plan, err
	}
	if plan.Workloads, err = pickWorkloads(cmp.Or(s.workloads, d.workloads)); err != nil {
		return plan, err
	}
	values, counts := cmp.Or(s.values, d.values), cmp.Or(s.counts, d.counts)
	if s.values != "" && s.counts == "" {
		counts = "200k"
		if s.smoke {
			counts = d.counts
		}
	}
	if plan.Sizes, err = parseSizes(values, counts); err != nil {
		return plan, err
	}
	raw := cmp.Or(s.coldMB, d.cold) << 20
	plan.Cold = Colder{
		Size:   Size{Bytes: s.coldValue, Keys: int(raw / int64(keySize+s.coldValue))},
		Memory: cmp.Or(s.coldMemory<<20, max(raw/4, leastMemory)),
		Own:    s.coldOwn << 20,
	}
	if plan.Dir, err = os.MkdirTemp(s.dir, "brock-bench-"); err != nil {
		return plan, err
	}
	return plan, errors.Join(plan.enoughDisk())
}

// leastMemory is how many bytes a process with an open store needs, whatever its data.
const leastMemory = 192 << 20

// parseSizes reads the lists of -values and -counts.
func parseSizes(values, counts string) ([]Size, error) {
	var sizes []Size
	texts, numbers := strings.Split(values, ","), strings.Split(counts, ",")
	if len(numbers) > 1 && len(numbers) != len(texts) {
		return nil, errors.New("-counts: one for all sizes, or one for each")
	}
	for i, text := range texts {
		bytes, err := strconv.Atoi(text)
		if err != nil || bytes < 0 || bytes > 99_999 {
			return nil, fmt.Errorf("-values: %q is no size from 0 to 99999", text)
		}
		keys, err := parseCount(numbers[min(i, len(numbers)-1)])
		if err != nil {
			return nil, fmt.Errorf("-counts: %w", err)
		}
		sizes = append(sizes, Size{Bytes: bytes, Keys: keys})
	}
	return sizes, nil
}

// parseCount reads a number such as 250M.
func parseCount(text string) (int, error) {
	digits, unit := strings.TrimRight(text, "kM"), 1
	switch strings.TrimPrefix(text, digits) {
	case "k":
		unit = 1000
	case "M":
		unit = 1_000_000
	}
	n, err := strconv.Atoi(digits)
	// Half of the ten digits of a key number are for missing keys.
	if err != nil || n < 1 || n*unit > 4_000_000_000 || len(text)-len(digits) > 1 {
		return 0, fmt.Errorf("%q is no number of pairs", text)
	}
	return n * unit, nil
}

// enoughDisk returns an error if the stores surely don't fit.
func (p *Plan) enoughDisk() error {
	_, free := fileSystem(p.Dir)
	for _, size := range p.Sizes {
		data := Dataset{Keys: size.Keys, ValueSize: size.Bytes}
		at := int64(1) // stores that are on the disk at a time
		if len((&runner{Plan: *p}).kind(First, Loaded, Mixed)) > 0 {
			at = int64(len((&runner{Plan: *p}).makers(size.Bytes, Workload{})))
		}
		// A store takes half as much again beside its data while it works.
		if need := data.RawBytes() * (2*at + 1) / 2; need > free {
			return errors.Join(fmt.Errorf("%d pairs of %d B in %d stores take %d GB and more, and %d GB are free: give -counts, fewer -stores or another -dir",
				size.Keys, size.Bytes, at, need>>30, free>>30), os.RemoveAll(p.Dir))
		}
	}
	return nil
}

// describe returns the settings that figures depend on.
func (s *settings) describe(p Plan) []result.Pair {
	var sizes []string
	for _, z := range p.Sizes {
		sizes = append(sizes, fmt.Sprintf("%s of %d B", result.Group(z.Keys), z.Bytes))
	}
	return []result.Pair{
		{Name: "pairs", Value: strings.Join(sizes, ", ")},
		{Name: "slices", Value: strconv.Itoa(p.Slices)},
		{Name: "calls in a slice", Value: result.Group(p.Ops)},
		{Name: "large values", Value: fmt.Sprintf("%d MB", p.Large>>20)},
		{Name: "data larger than memory", Value: fmt.Sprintf("%s pairs of %d B, %d MB of memory, %d of it the program's own", result.Group(p.Cold.Size.Keys), p.Cold.Size.Bytes, p.Cold.Memory>>20, p.Cold.Own>>20)},
	}
}

func (s *settings) measureMemory(plan Plan, stdout io.Writer) error {
	m := memoryPlan{Times: max(s.times, 1), Dir: plan.Dir}
	for _, z := range plan.Sizes {
		m.Sizes = append(m.Sizes, z.Bytes)
	}
	var err error
	if m.Limits, err = parseMemory(s.memory); err != nil {
		return err
	}
	return m.run(stdout)
}
