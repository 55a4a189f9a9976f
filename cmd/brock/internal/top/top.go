// Package top shows what an open store does, as top does of processes: what changed
// between two snapshots of its Metrics, and what it holds now.
package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/human"
)

// Source returns a snapshot.
type Source func(context.Context) (brock.Metrics, error)

// Config says what is shown, and where.
type Config struct {
	Name     string
	Source   Source
	Followed bool // another process writes the store: what only that one counts is left out
	Interval time.Duration
	Count    int // ends after this many screens; 0 = when the context ends
	Out      io.Writer
	Terminal bool // draw over the last screen
}

// Watch shows a screen at each interval.
func Watch(ctx context.Context, c Config) error {
	last, err := c.Source(ctx)
	if err != nil {
		return err
	}
	at := time.Now()
	tick := time.NewTicker(c.Interval)
	defer tick.Stop()
	for shown := 0; c.Count == 0 || shown < c.Count; shown++ {
		select {
		case <-ctx.Done():
			return nil // the usual way to end it
		case <-tick.C:
		}
		now, err := c.Source(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		show := Screen
		if c.Followed {
			show = FollowedScreen
		}
		screen := fmt.Sprintf("%s  %s\n%s\n", c.Name, time.Now().Format(time.TimeOnly), show(&last, &now, time.Since(at)))
		if c.Terminal {
			screen = "\x1b[H\x1b[2J" + screen // to the upper left corner, and clear
		}
		if _, err := io.WriteString(c.Out, screen); err != nil {
			return err
		}
		last, at = now, time.Now()
	}
	return nil
}

// Screen is what happened between two snapshots, and what there is at the second.
func Screen(last, now *brock.Metrics, took time.Duration) string {
	var s screen
	line := s.line
	l, n := &last.Tree, &now.Tree
	rate := func(to, from int64, things string) string { return human.Rate(max(to-from, 0), things, took) }
	bytes := func(to, from int64) string { return human.ByteRate(max(to-from, 0), took) }
	line("reads", "%s, %s; %s", rate(now.Reads, last.Reads, "gets"), rate(now.Iterators, last.Iterators, "iterators"), latency(&last.ReadLatency, &now.ReadLatency))
	line("commits", "%s, %s, %s; %s", rate(now.Commits, last.Commits, "commits"), rate(now.Entries, last.Entries, "entries"), bytes(now.Bytes, last.Bytes),
		latency(&last.CommitLatency, &now.CommitLatency))
	line("syncs", "%s; %s", rate(now.SyncLatency.Count, last.SyncLatency.Count, "syncs"), latency(&last.SyncLatency, &now.SyncLatency))
	line("conflicts", "%s, %s", rate(now.Conflicts, last.Conflicts, "conflicts"), rate(now.Retries, last.Retries, "retries"))
	line("written", "journal %s, flushes %s, compactions %s, collections %s", bytes(n.JournalBytes, l.JournalBytes), bytes(n.FlushedBytes, l.FlushedBytes),
		bytes(n.CompactedBytes, l.CompactedBytes), bytes(n.CollectedBytes, l.CollectedBytes))
	line("stalls", "%.0f %% of the time; %s commits refused",
		100*float64(max(n.StallTime-l.StallTime, 0))/float64(max(took, 1)), human.Count(max(n.Refused-l.Refused, 0)))
	s.tree(n)
	line("segments", "%d, %s; dead %s %s", n.Segments, human.Bytes(n.SegmentBytes), human.Bytes(n.DeadBytes), share(n.DeadBytes, n.SegmentBytes))
	line("live", "%s; expired %s", human.Bytes(n.LiveBytes), human.Bytes(n.ExpiredBytes))
	line("memory", "%s; %d files open, %d mapped", human.Bytes(now.MemoryBytes()), n.OpenFiles, n.MappedFiles)
	if n.FreeBytes >= 0 {
		line("disk", "%s left, %s in reserve", human.Bytes(n.FreeBytes), human.Bytes(n.ReserveBytes))
	}
	if n.PinnedFor > 0 {
		line("pinned", "%s in files, %s in memory, for %s by %s", human.Bytes(n.PinnedBytes), human.Bytes(n.PinnedMemory), human.Duration(n.PinnedFor), n.PinnedBy)
	} else {
		line("pinned", "nothing")
	}
	if n.WorkWaiting != "" {
		line("waiting", "%s", n.WorkWaiting)
	}
	if n.Damaged > 0 || now.Leaked > 0 {
		line("TROUBLE", "%s damaged places, %s leaked transactions", human.Count(n.Damaged), human.Count(now.Leaked))
	}
	return s.String()
}

// FollowedScreen is Screen for snapshots of a follower: the store as its files show it. How
// its writer reads, syncs and stalls is not in the files, nor what part of the journal is live.
func FollowedScreen(last, now *brock.Metrics, took time.Duration) string {
	var s screen
	l, n := &last.Tree, &now.Tree
	s.line("commits", "%s; version %s", human.Rate(int64(n.Version-min(l.Version, n.Version)), "commits", took), human.Count(int64(n.Version)))
	s.tree(n)
	s.line("values", "%d segments beside the journal, %s; dead %s %s", n.Segments, human.Bytes(n.SegmentBytes), human.Bytes(n.DeadBytes), share(n.DeadBytes, n.SegmentBytes))
	s.line("more", "reads, latencies, stalls and pins: only the process that writes the store counts them")
	return s.String()
}

// screen is lines, each with a name.
type screen struct{ strings.Builder }

func (s *screen) line(name, format string, args ...any) {
	fmt.Fprintf(s, "%-10s "+format+"\n", append([]any{name}, args...)...)
}

// tree shows memtables and runs.
func (s *screen) tree(n *brock.TreeMetrics) {
	s.line("memtables", "%d with %s entries, %s", n.Memtables, human.Count(n.MemtableEntries), human.Bytes(n.MemtableBytes))
	s.line("runs", "%d with %s entries, %s", n.Runs, human.Count(n.RunEntries), human.Bytes(n.RunBytes))
}

// latency describes the durations that were added to a histogram.
func latency(last, now *brock.Histogram) string {
	d := brock.Histogram{Count: now.Count - last.Count, Sum: now.Sum - last.Sum}
	if d.Count <= 0 {
		return "latency: none measured"
	}
	for i := range d.Buckets {
		d.Buckets[i] = now.Buckets[i] - last.Buckets[i]
	}
	return fmt.Sprintf("latency: mean %s, p50 < %s, p99 < %s", human.Duration(d.Sum/time.Duration(d.Count)), human.Duration(d.Quantile(0.5)), human.Duration(d.Quantile(0.99)))
}

// share returns a part as percent and as a bar.
func share(part, all int64) string {
	if all <= 0 {
		return ""
	}
	const width = 20
	cells := int(min(part, all) * width / all)
	return fmt.Sprintf("[%s%s] %d %%", strings.Repeat("░", cells), strings.Repeat("█", width-cells), min(part, all)*100/all)
}

// ErrNoMetrics is an answer that has no Metrics of a store.
var ErrNoMetrics = errors.New("no metrics of a store")

// maxAnswer is more than a process publishes, in bytes.
const maxAnswer = 16 << 20

// HTTP returns a Source for a process that publishes the Metrics of its store by package
// expvar, such as at http://localhost:8080/debug/vars. What follows # is the name that it
// publishes them under; without it that is "brock".
func HTTP(address string) Source {
	address, name, _ := strings.Cut(address, "#")
	if name == "" {
		name = "brock"
	}
	client := &http.Client{Timeout: 10 * time.Second}
	return func(ctx context.Context) (m brock.Metrics, err error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return m, err
		}
		answer, err := client.Do(request)
		if err != nil {
			return m, err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return m, fmt.Errorf("%s: %s", address, answer.Status)
		}
		var all map[string]json.RawMessage
		if err := json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(&all); err != nil {
			return m, fmt.Errorf("%s: %w: %w", address, ErrNoMetrics, err)
		}
		if all[name] == nil {
			return m, fmt.Errorf("%s: %w under the name %q", address, ErrNoMetrics, name)
		}
		if err := json.Unmarshal(all[name], &m); err != nil {
			return m, fmt.Errorf("%s: %w: %w", address, ErrNoMetrics, err)
		}
		return m, nil
	}
}
