package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	runChild()
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run is the command: arguments in, report out.
func run(args []string, stdout, stderr io.Writer) (err error) {
	if len(args) > 0 && args[0] == "space" {
		return runSpace(args[1:], stdout, stderr)
	}
	if len(args) > 0 && args[0] == "bounds" {
		return runBounds(args[1:], stdout, stderr)
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var (
		stores    = flags.String("stores", "all", "stores to run, with commas between: "+makerNames())
		workloads = flags.String("workloads", "all", "workloads to run, each by its name or the beginning of it, with commas between: "+workloadNames())
		values    = flags.String("values", "16,128,1024", "sizes of values in bytes")
		keys      = flags.Int("keys", 0, "number of pairs; 0 = 2 M of 16 B, 1 M of 128 B (2 M for reading), 1 M of 1 KB, 1 GB of larger ones")
		rounds    = flags.Int("rounds", 3, "number of rounds; figures are their medians")
		ops       = flags.Int("ops", 200_000, "timed calls in each round")
		parent    = flags.String("dir", "", "directory for the stores; they go into a new one inside (default: the system's temporary directory)")
		results   = flags.String("json", "", "file for the results of every round")
		memory    = flags.String("memory", "", "measure only Brock's anonymous memory, at these MemoryLimits in MB, with commas between")
		times     = flags.Int("times", 100, "with -memory: bytes to write, as a multiple of MemoryLimit")
		quiet     = flags.Bool("quiet", false, "print tables only, no progress")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	plan := Plan{Keys: *keys, Rounds: *rounds, Ops: *ops, Log: stderr}
	if *quiet {
		plan.Log = io.Discard
	}
	if plan.Makers, err = pickMakers(*stores); err != nil {
		return err
	}
	if plan.Workloads, err = pickWorkloads(*workloads); err != nil {
		return err
	}
	for s := range strings.SplitSeq(*values, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			return fmt.Errorf("-values: %q is no size", s)
		}
		plan.Sizes = append(plan.Sizes, n)
	}
	if *keys < 0 || *rounds < 1 || *ops < 1 {
		return fmt.Errorf("-keys, -rounds and -ops must be positive")
	}
	if plan.Dir, err = os.MkdirTemp(*parent, "brock-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(plan.Dir)
	removeWhenInterrupted(plan.Dir)

	if *memory != "" {
		m := memoryPlan{Times: max(*times, 1), Sizes: plan.Sizes, Dir: plan.Dir}
		if m.Limits, err = parseMemory(*memory); err != nil {
			return err
		}
		return m.run(stdout)
	}
	out := report{Environment: environment(plan.Makers)}
	out.Environment.print(stdout)
	fmt.Fprintln(stdout, "Medians over the rounds. The column after a figure says how many times as much the store needs as the")
	fmt.Fprintln(stdout, "first one (for rates: how many times slower it is); above 1 the first store is ahead.")
	err = plan.Run(func(t *Table) {
		t.print(stdout)
		out.Results = append(out.Results, t.Rows...)
	})
	if err != nil {
		return err
	}
	if *results != "" {
		if err := out.save(*results); err != nil {
			return err
		}
	}
	return out.failure()
}

// report is what -json saves.
type report struct {
	Environment Environment `json:"environment"`
	Results     []*Result   `json:"results"`
}

func (r *report) save(file string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

func (r *report) failure() error {
	for _, row := range r.Results {
		if row.Error != "" {
			return fmt.Errorf("%s on %s: %s", row.Workload, row.Store, row.Error)
		}
	}
	return nil
}

func removeWhenInterrupted(dir string) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-c
		os.RemoveAll(dir)
		os.Exit(1)
	}()
}

func makerNames() string {
	var names []string
	for _, m := range Makers() {
		names = append(names, m.Name)
	}
	return strings.Join(names, ", ")
}

func workloadNames() string {
	var names []string
	for _, w := range Workloads() {
		names = append(names, w.Name)
	}
	return strings.Join(names, ", ")
}
