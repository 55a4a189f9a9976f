package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/brockdb/brock/bench/internal/result"
)

const (
	reportName = "report.md"
	chartsName = "charts"
	readmeName = "readme" // of the chart, with .svg and .png
)

// publish writes and compares what was measured, now or earlier.
func (s *settings) publish(r *result.Run, stdout io.Writer) error {
	var errs []error
	if s.json != "" {
		errs = append(errs, r.Save(s.json))
	}
	if s.report != "" {
		errs = append(errs, s.writeReport(r))
	}
	if s.compare != "" {
		errs = append(errs, s.compareWith(r, stdout))
	}
	return errors.Join(errs...)
}

// writeReport writes the report and its charts, and what the README shows of them.
func (s *settings) writeReport(r *result.Run) error {
	if err := r.Charts(filepath.Join(s.report, chartsName)); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := r.Markdown(&b, chartsName); err != nil {
		return err
	}
	report := filepath.Join(s.report, reportName)
	if err := os.WriteFile(report, b.Bytes(), 0o644); err != nil || s.readme == "" {
		return err
	}
	chart := filepath.Join(s.report, readmeName)
	if err := r.ReadmeChart(chart, s.readmeValue); err != nil {
		return err
	}
	links := make([]string, 0, 2)
	for _, to := range []string{chart + ".svg", report} {
		link, err := filepath.Rel(filepath.Dir(s.readme), to)
		if err != nil {
			return err
		}
		links = append(links, filepath.ToSlash(link))
	}
	return r.Readme(s.readme, links[0], links[1], s.readmeValue)
}

func (s *settings) compareWith(r *result.Run, stdout io.Writer) error {
	old, err := result.Load(s.compare)
	if err != nil {
		return err
	}
	changes := result.Compare(old, r, s.tolerance)
	if len(changes) == 0 {
		return fmt.Errorf("%s has no figure of the same work", s.compare)
	}
	if worse := result.PrintChanges(stdout, changes, s.tolerance); worse > 0 {
		return fmt.Errorf("%w: %d figures", errWorse, worse)
	}
	return nil
}
