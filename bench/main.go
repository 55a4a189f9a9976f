package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/brockdb/brock/bench/internal/cage"
	"github.com/brockdb/brock/bench/internal/result"
)

func main() {
	runChild()
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		if errors.Is(err, errWorse) {
			os.Exit(3)
		}
		os.Exit(1)
	}
}

// errWorse ends the program with status 3: it did its work, and the first store
// has become slower.
var errWorse = errors.New("slower than before")

// run is the command: arguments in, report out.
func run(args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "space":
			return runSpace(args[1:], stdout, stderr)
		case "bounds":
			return runBounds(args[1:], stdout, stderr)
		case "programs":
			return runPrograms(args[1:], stdout, stderr)
		case "copies":
			return runCopies(args[1:], stdout, stderr)
		}
	}
	s, err := parseSettings(args, stderr)
	if err != nil {
		return err
	}
	if s.from != "" {
		r, err := result.Load(s.from)
		if err != nil {
			return err
		}
		return errors.Join(s.publish(r, stdout), r.Failure())
	}
	plan, err := s.plan(stderr)
	if err != nil {
		return err
	}
	defer os.RemoveAll(plan.Dir)
	removeWhenInterrupted(plan.Dir)
	if s.memory != "" {
		return s.measureMemory(plan, stdout)
	}
	r := newRun(plan.Makers, plan.Dir)
	r.Settings = s.describe(plan)
	r.Print(stdout)
	fmt.Fprintln(stdout, "Medians over the slices. The column after a figure is the first store's ratio to this one:")
	fmt.Fprintln(stdout, "above 1, the first store is better.")
	r.LeftOut, err = plan.Run(func(t *result.Table) {
		t.Print(stdout)
		r.Tables = append(r.Tables, t)
	})
	for _, what := range r.LeftOut {
		fmt.Fprintln(stdout, "\nLeft out:", what)
	}
	return errors.Join(err, s.publish(r, stdout), r.Failure())
}

func removeWhenInterrupted(dir string) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-c
		cage.Clean()
		os.RemoveAll(dir)
		os.Exit(1)
	}()
}
