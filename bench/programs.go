package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"

	"github.com/brockdb/brock/bench/internal/programs"
)

// runPrograms is "bench programs": what programs build on, beside the nearest thing that a peer has.
func runPrograms(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench programs", flag.ContinueOnError)
	flags.SetOutput(stderr)
	n := 200_000
	flags.Func("n", "how many pairs, commits or steps each way does, k and M allowed (default 200k)", func(text string) (err error) {
		n, err = parseCount(text)
		return err
	})
	slices := flags.Int("slices", 5, "how often each way is measured, in turn with the others")
	only := flags.String("rows", "", "a regular expression: only the rows whose name it matches")
	parent := flags.String("dir", "", "directory for the stores; they go into a new one inside (default: the system's temporary directory)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	wanted, err := regexp.Compile(*only)
	if err != nil || n < 1 || *slices < 1 {
		return errors.Join(err, errors.New("-n and -slices must be 1 or more, -rows a regular expression"))
	}
	dir, err := os.MkdirTemp(*parent, "brock-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	removeWhenInterrupted(dir)
	for _, row := range programs.Rows() {
		if wanted.MatchString(row.Name) {
			if err := measureRow(stdout, dir, &row, max(n/max(row.Part, 1), 1), *slices); err != nil {
				return err
			}
		}
	}
	return nil
}

// measureRow measures the ways of a row in turn, and prints their medians.
func measureRow(out io.Writer, parent string, row *programs.Row, n, rounds int) error {
	rates := make([][]float64, len(row.Ways))
	for range rounds {
		for i, way := range row.Ways {
			dir, err := os.MkdirTemp(parent, "way-")
			if err != nil {
				return err
			}
			rate, err := way.Measure(dir, n)
			if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
				return fmt.Errorf("%s: %w", way.Store, err)
			}
			rates[i] = append(rates[i], rate)
		}
	}
	fmt.Fprintf(out, "%s, %s\n", row.Name, row.Unit)
	var first float64
	for i, way := range row.Ways {
		slices.Sort(rates[i])
		median := rates[i][rounds/2]
		if i == 0 {
			first = median
		}
		fmt.Fprintf(out, "  %-28s %12.0f (%.0f-%.0f)  %.2f\n", way.Store, median, rates[i][0], rates[i][rounds-1], first/median)
	}
	return nil
}
