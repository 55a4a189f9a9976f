package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// outcome is what came of the tests of one program, subtests included.
type outcome struct {
	passed, skipped map[string]bool
	failed          map[string]string // with the end of its output
	took            time.Duration
}

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
	ImportPath                    string // of a build
}

// runTests runs the tests of the program in dir.
func runTests(ctx context.Context, p *program, dir string, timeout time.Duration) (*outcome, error) {
	// Without vet: the go.mod of this module raises the language version of an old program, and with it
	// what vet refuses.
	args := []string{"test", "-json", "-vet=off", "-count=1", "-timeout=" + timeout.String()}
	args = append(append(args, p.flags...), p.packages...)
	begun := time.Now()
	out, err := commandWith(ctx, p.env, dir, "go", args...)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	result, decodeErr := decodeEvents(out)
	if decodeErr != nil {
		return nil, errors.Join(err, decodeErr)
	}
	result.took = time.Since(begun)
	if len(result.passed)+len(result.failed) == 0 {
		return nil, errors.Join(errors.New("no test has run"), err)
	}
	return result, nil
}

// decodeEvents reads the output of go test -json. A package that doesn't build, or ends outside of a
// test, counts as a failed test of its name.
func decodeEvents(out []byte) (*outcome, error) {
	r := &outcome{passed: map[string]bool{}, skipped: map[string]bool{}, failed: map[string]string{}}
	output := map[string]string{}
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var e event
		if err := decoder.Decode(&e); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(e.Package+" "+e.Test, " ")
		if e.Action == "build-output" {
			name = e.ImportPath
		}
		r.add(&e, name, output)
	}
	// A package fails because of its tests, or by itself: only then it counts.
	for name := range r.failed {
		if pkg, _, isTest := strings.Cut(name, " "); isTest {
			delete(r.failed, pkg)
		}
	}
	return r, nil
}

func (r *outcome) add(e *event, name string, output map[string]string) {
	switch e.Action {
	case "output", "build-output":
		output[name] = lastLines(output[name]+e.Output, 12) + "\n"
	case "pass":
		if e.Test != "" {
			r.passed[name] = true
		}
	case "skip":
		if e.Test != "" {
			r.skipped[name] = true
		}
	case "fail":
		r.failed[name] = output[name]
	}
}

// worseThan returns the tests that pass in base and don't here, but for those that differs names.
func (r *outcome) worseThan(base *outcome, differs map[string]string) []string {
	var worse []string
	for name := range base.passed {
		_, test, _ := strings.Cut(name, " ")
		if !r.passed[name] && differs[test] == "" {
			worse = append(worse, name)
		}
	}
	slices.Sort(worse)
	return worse
}

func printRow(w io.Writer, r *row) {
	if r.err != nil {
		fmt.Fprintf(w, "\t%v\n", r.err)
		return
	}
	fmt.Fprintf(w, "\tBadger %d passed, %d failed in %v; here %d passed, %d failed in %v\n", len(r.genuine.passed),
		len(r.genuine.failed), r.genuine.took.Round(time.Second), len(r.ported.passed), len(r.ported.failed),
		r.ported.took.Round(time.Second))
	for _, name := range failedOnBoth(r) {
		fmt.Fprintf(w, "\tfails on both: %s\n", name)
	}
	for _, name := range r.worse[:min(len(r.worse), worseShown)] {
		fmt.Fprintf(w, "\tworse: %s\n%s\n", name, r.ported.failed[name])
	}
	if len(r.ported.passed) == 0 {
		for name, output := range r.ported.failed {
			fmt.Fprintf(w, "\t%s\n%s\n", name, output)
		}
	}
}

// worseShown is how many tests that are worse are named.
const worseShown = 20

// failedOnBoth returns the tests that fail on both.
func failedOnBoth(r *row) []string {
	var names []string
	for name := range r.genuine.failed {
		if _, found := r.ported.failed[name]; found {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// printTable prints the rows as the README has them.
func printTable(w io.Writer, rows []row) {
	fmt.Fprintln(w, "| program | version | on Badger: passed, failed | here: passed, failed | fails here only |")
	fmt.Fprintln(w, "| --- | --- | --- | --- | --- |")
	for i := range rows {
		r := &rows[i]
		if r.err != nil {
			fmt.Fprintf(w, "| %s | %s | not run: %s | | |\n", r.program.name, r.version, firstLine(r.err.Error()))
			continue
		}
		names := slices.Clone(r.worse[:min(len(r.worse), worseShown)])
		if more := len(r.worse) - len(names); more > 0 {
			names = append(names, fmt.Sprintf("and %d more", more))
		}
		for test, reason := range r.program.differs {
			names = append(names, test+": "+reason)
		}
		slices.Sort(names)
		fmt.Fprintf(w, "| %s | %s | %d, %d | %d, %d | %s |\n", r.program.name, r.version, len(r.genuine.passed),
			len(r.genuine.failed), len(r.ported.passed), len(r.ported.failed), strings.Join(names, "; "))
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
