package top

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
)

// TestScreen shows what changed, and by what rate.
func TestScreen(t *testing.T) {
	var last, now brock.Metrics
	last.Reads, now.Reads = 1000, 5000
	last.ReadLatency = brock.Histogram{Count: 10, Sum: time.Second}
	last.ReadLatency.Buckets[30] = 10
	now.ReadLatency = brock.Histogram{Count: 14, Sum: time.Second + 4*time.Microsecond}
	now.ReadLatency.Buckets[30], now.ReadLatency.Buckets[10] = 10, 4 // those of before don't count
	now.Tree.SegmentBytes, now.Tree.DeadBytes = 1000, 250
	now.Tree.StallTime = 500 * time.Millisecond
	now.Tree.FreeBytes = -1
	now.Tree.PinnedFor, now.Tree.PinnedBy = time.Minute, "main.report report.go:17"
	now.Tree.WorkWaiting = "flush: too many open files"
	got := Screen(&last, &now, 2*time.Second)
	for _, want := range []string{
		"2,000 gets/s", "mean 1.00 µs, p50 < 1.02 µs, p99 < 1.02 µs", "[░░░░░███████████████] 25 %",
		"25 % of the time", "for 1m0s by main.report report.go:17", "waiting    flush: too many open files",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "disk ") {
		t.Errorf("free bytes that are not known are shown:\n%s", got)
	}
	// A process that was started again counts from 0.
	if got := Screen(&now, &brock.Metrics{}, time.Second); strings.Contains(got, "-") {
		t.Errorf("negative rates:\n%s", got)
	}
}

// TestHTTP takes the metrics from where expvar has them.
func TestHTTP(t *testing.T) {
	var m brock.Metrics
	m.Reads, m.Tree.LastScrub, m.ReadLatency.Sum = 7, time.UnixMilli(1).UTC(), time.Second
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/debug/vars":
			_ = json.NewEncoder(w).Encode(map[string]any{"brock": m, "cmdline": []string{"x"}, "odd": "text"})
		case "/page":
			_, _ = w.Write([]byte("<html>"))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	for _, address := range []string{"/debug/vars", "/debug/vars#brock"} {
		if got, err := HTTP(server.URL + address)(t.Context()); err != nil || got.Reads != 7 || !got.Tree.LastScrub.Equal(m.Tree.LastScrub) || got.ReadLatency.Sum != time.Second {
			t.Errorf("%s: %v, %v", address, got, err)
		}
	}
	for _, address := range []string{"/debug/vars#other", "/debug/vars#odd", "/page"} {
		if _, err := HTTP(server.URL + address)(t.Context()); !errors.Is(err, ErrNoMetrics) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, err := HTTP(server.URL + "/none")(t.Context()); err == nil || !strings.Contains(err.Error(), "404") {
		t.Error(err)
	}
}

func TestWatch(t *testing.T) {
	var out strings.Builder
	calls := 0
	c := Config{Name: "a store", Interval: time.Millisecond, Count: 3, Out: &out,
		Source: func(context.Context) (m brock.Metrics, err error) { calls++; return m, nil }}
	if err := Watch(t.Context(), c); err != nil || calls != 4 || strings.Count(out.String(), "a store ") != 3 || strings.Contains(out.String(), "\x1b") {
		t.Errorf("%d calls, %v: %s", calls, err, out.String())
	}
	out.Reset()
	c.Terminal, c.Count = true, 1
	if err := Watch(t.Context(), c); err != nil || !strings.HasPrefix(out.String(), "\x1b[H\x1b[2J") {
		t.Errorf("%v: %q", err, out.String())
	}
	gone := errors.New("gone")
	c.Source = func(context.Context) (m brock.Metrics, err error) { return m, gone }
	if err := Watch(t.Context(), c); !errors.Is(err, gone) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c.Source = func(context.Context) (m brock.Metrics, err error) { cancel(); return m, nil }
	c.Count = 0
	if err := Watch(ctx, c); err != nil {
		t.Errorf("ended by the user: %v", err)
	}
}

// TestFollowedScreen shows what a follower sees, and nothing of what only a writer counts.
func TestFollowedScreen(t *testing.T) {
	var last, now brock.Metrics
	last.Tree.Version, now.Tree.Version = 1000, 5000
	now.Tree.Memtables, now.Tree.MemtableEntries = 2, 70
	now.Tree.Segments, now.Tree.SegmentBytes, now.Tree.DeadBytes = 3, 1000, 250
	got := FollowedScreen(&last, &now, 2*time.Second)
	for _, want := range []string{"2,000 commits/s; version 5,000\n", "memtables  2 with 70 entries", "3 segments beside the journal", "[░░░░░███████████████] 25 %"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for _, name := range []string{"reads ", "syncs ", "stalls ", "pinned ", "disk "} {
		if strings.Contains("\n"+got, "\n"+name) {
			t.Errorf("%s in\n%s", name, got)
		}
	}
	// Another copy of the store may have taken its place, with an older version.
	if got := FollowedScreen(&now, &last, time.Second); !strings.Contains(got, "0 commits/s; version 1,000\n") {
		t.Error(got)
	}
	var out strings.Builder
	c := Config{Followed: true, Interval: time.Millisecond, Count: 1, Out: &out,
		Source: func(context.Context) (brock.Metrics, error) { return now, nil }}
	if err := Watch(t.Context(), c); err != nil || !strings.Contains(out.String(), "beside the journal") {
		t.Errorf("%v: %s", err, out.String())
	}
}
