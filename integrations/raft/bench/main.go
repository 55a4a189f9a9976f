// Command bench does the same work with the logs of raft that programs have today, and prints what
// each one does in a second, as a table in Markdown.
//
//	go run . [-dir DIR] [-time 20ms] [-slices 101] [-share 0.5] [-cells append]
//
// For each row the stores take turns, in short slices, so that a machine that is busy with other work
// now and then is so for all. A row has the median of the slices, or, with -share 0.9, what the
// fastest tenth of them did at least: on a busy machine, these are the ones that were not disturbed.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	raftstore "github.com/brockdb/brock/integrations/raft"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
)

// logStore is a log of raft that can be closed.
type logStore interface {
	raft.LogStore
	io.Closer
}

// peer is one kind of log.
type peer struct {
	name string
	open func(dir string) (logStore, error)
}

// peers are the logs that are compared. The first one is Brock.
var peers = []peer{
	{"brock", func(dir string) (logStore, error) { return raftstore.Open(dir, raftstore.Options{}) }},
	{"raft-wal", func(dir string) (logStore, error) {
		return wal.Open(dir, wal.WithLogger(hclog.NewNullLogger()))
	}},
	{"raft-boltdb", func(dir string) (logStore, error) {
		return raftboltdb.NewBoltStore(filepath.Join(dir, "raft.db"))
	}},
}

// cell is one row: work that a slice of time is given to.
type cell struct {
	name string
	// prepare fills a new log, and returns what does one piece of work. It says how many units
	// that was, and how long it took, without what only prepares the next piece.
	prepare func(s logStore) (func() (units int, took time.Duration, err error), error)
}

func main() {
	dir := flag.String("dir", "", "where to make the stores; default the directory for temporary files")
	slice := flag.Duration("time", 20*time.Millisecond, "how long a slice is")
	n := flag.Int("slices", 101, "slices of each store and row")
	share := flag.Float64("share", 0.5, "the share of the slices that were slower than the figure in a row")
	only := flag.String("cells", "", "only rows whose names contain this")
	flag.Parse()
	if *n < 1 || *share < 0 || *share > 1 {
		fmt.Fprintln(os.Stderr, "-slices is at least 1, and -share from 0 to 1")
		os.Exit(2)
	}
	if err := compare(os.Stdout, cells(1), *dir, *slice, *n, *share, *only); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// compare prints a row for each cell.
func compare(w io.Writer, all []cell, dir string, slice time.Duration, n int, share float64, only string) error {
	fmt.Fprintf(w, "| a second |")
	for _, p := range peers {
		fmt.Fprintf(w, " %s |", p.name)
	}
	for _, p := range peers[1:] {
		fmt.Fprintf(w, " over %s |", p.name)
	}
	fmt.Fprintf(w, "\n| --- |%s\n", strings.Repeat(" ---: |", 2*len(peers)-1))
	for _, c := range all {
		if !strings.Contains(c.name, only) {
			continue
		}
		rates, err := measure(c, dir, slice, n, share)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Fprintf(w, "| %s |", c.name)
		for _, r := range rates {
			fmt.Fprintf(w, " %.0f |", r)
		}
		for _, r := range rates[1:] {
			fmt.Fprintf(w, " %.2f |", rates[0]/r)
		}
		fmt.Fprintln(w)
	}
	return nil
}

// measure returns the rate of each peer.
func measure(c cell, dir string, slice time.Duration, n int, share float64) (rates []float64, err error) {
	root, err := os.MkdirTemp(dir, "raft-bench")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	work := make([]func() (int, time.Duration, error), len(peers))
	for i, p := range peers {
		at := filepath.Join(root, p.name)
		if err := os.Mkdir(at, 0o700); err != nil {
			return nil, err
		}
		s, err := p.open(at)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		if work[i], err = c.prepare(s); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	found := make([][]float64, len(peers))
	for range n {
		for i := range peers {
			units, took := 0, time.Duration(0)
			for took < slice {
				u, d, err := work[i]()
				if err != nil {
					return nil, fmt.Errorf("%s: %w", peers[i].name, err)
				}
				units, took = units+u, took+d
			}
			found[i] = append(found[i], float64(units)/took.Seconds())
		}
	}
	for _, f := range found {
		slices.Sort(f)
		rates = append(rates, f[int(share*float64(len(f)-1)+0.5)])
	}
	return rates, nil
}

// appendCell appends without an end.
func appendCell(size, batch int) cell {
	return cell{fmt.Sprintf("entries of %d B appended, %d at a time", size, batch), func(s logStore) (func() (int, time.Duration, error), error) {
		logs, next := makeLogs(size, batch), uint64(1)
		return func() (int, time.Duration, error) {
			next = number(logs, next)
			begin := time.Now()
			err := s.StoreLogs(logs)
			return batch, time.Since(begin), err
		}, nil
	}}
}

// rollingCell appends to a log that raft keeps short: what a node does all its life.
func rollingCell(size, batch, keep int) cell {
	return cell{fmt.Sprintf("the same with %d kept: %d B, %d at a time", keep, size, batch), func(s logStore) (func() (int, time.Duration, error), error) {
		logs, next, first := makeLogs(size, batch), uint64(1), uint64(1)
		return func() (int, time.Duration, error) {
			next = number(logs, next)
			begin := time.Now()
			err := s.StoreLogs(logs)
			if err == nil && next-first > uint64(2*keep) {
				last := next - 1 - uint64(keep)
				err = s.DeleteRange(first, last)
				first = last + 1
			}
			return batch, time.Since(begin), err
		}, nil
	}}
}

// readCell reads one entry after the other, or any.
func readCell(size, count int, random bool) cell {
	order := "in order"
	if random {
		order = "at random"
	}
	return cell{fmt.Sprintf("entries of %d B read, %d of them, %s", size, count, order), func(s logStore) (func() (int, time.Duration, error), error) {
		if err := fill(s, size, count); err != nil {
			return nil, err
		}
		next := 0
		return func() (int, time.Duration, error) {
			const pieces = 1000
			begin := time.Now()
			for range pieces {
				next++
				if random {
					next = rand.IntN(count)
				}
				var l raft.Log
				if err := s.GetLog(uint64(next%count)+1, &l); err != nil {
					return 0, 0, err
				}
				if len(l.Data) != size {
					return 0, 0, fmt.Errorf("entry of %d bytes", len(l.Data))
				}
			}
			return pieces, time.Since(begin), nil
		}, nil
	}}
}

// deleteCell deletes the head of a log, which is filled again meanwhile.
func deleteCell(size, n int) cell {
	return cell{fmt.Sprintf("calls of DeleteRange of %d entries of %d B", n, size), func(s logStore) (func() (int, time.Duration, error), error) {
		const ahead = 20
		if err := fill(s, size, ahead*n); err != nil {
			return nil, err
		}
		first, next := uint64(1), uint64(ahead*n+1)
		logs := makeLogs(size, n)
		return func() (int, time.Duration, error) {
			begin := time.Now()
			if err := s.DeleteRange(first, first+uint64(n)-1); err != nil {
				return 0, 0, err
			}
			took := time.Since(begin)
			first += uint64(n)
			next = number(logs, next)
			return 1, took, s.StoreLogs(logs)
		}, nil
	}}
}

// fill appends count entries.
func fill(s logStore, size, count int) error {
	logs, next := makeLogs(size, 500), uint64(1)
	for left := count; left > 0; left -= len(logs) {
		logs = logs[:min(left, len(logs))]
		next = number(logs, next)
		if err := s.StoreLogs(logs); err != nil {
			return err
		}
	}
	return nil
}

// makeLogs returns entries of random bytes, which nobody can make smaller.
func makeLogs(size, n int) (logs []*raft.Log) {
	source := rand.NewChaCha8([32]byte{1})
	for range n {
		l := &raft.Log{Term: 3, Data: make([]byte, size), AppendedAt: time.Now()}
		_, _ = source.Read(l.Data)
		logs = append(logs, l)
	}
	return logs
}

// number gives entries the indexes from next on, and returns the one behind them.
func number(logs []*raft.Log, next uint64) uint64 {
	for _, l := range logs {
		l.Index = next
		next++
	}
	return next
}

// cells returns all rows, with a part of the entries that they read.
func cells(part int) (all []cell) {
	for _, size := range []int{200, 1024, 8192} {
		for _, batch := range []int{1, 64} {
			all = append(all, appendCell(size, batch))
		}
	}
	for _, batch := range []int{1, 64} {
		all = append(all, rollingCell(1024, batch, 10_240/part))
	}
	for _, r := range []struct{ size, count int }{{200, 200_000}, {1024, 100_000}, {8192, 20_000}} {
		all = append(all, readCell(r.size, r.count/part, false), readCell(r.size, r.count/part, true))
	}
	return append(all, deleteCell(1024, 1), deleteCell(1024, 1000/part))
}
