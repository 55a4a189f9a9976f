package debug

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/brockdb/brock"
)

const (
	sampleEvery = time.Second
	// maxPoints is how many points stay for a page that is opened again.
	maxPoints = 600
	// maxGap is the longest time between two samples that makes a point. Rates over a longer time,
	// when nobody looked, would look like those of its end.
	maxGap = 5 * time.Second
)

// point is what was done between two samples: rates in units a second, latencies in seconds.
type point struct {
	At        int64   `json:"at"`
	Version   float64 `json:"version"` // commits of any process
	Commits   float64 `json:"commits"`
	Entries   float64 `json:"entries"`
	Bytes     float64 `json:"bytes"`
	Reads     float64 `json:"reads"`
	Iterators float64 `json:"iterators"`
	Conflicts float64 `json:"conflicts"`
	Retries   float64 `json:"retries"`
	Stall     float64 `json:"stall"` // share of the time
	Journal   float64 `json:"journal"`
	Flushed   float64 `json:"flushed"`
	Compacted float64 `json:"compacted"`
	Collected float64 `json:"collected"` // with spills
	CommitP50 float64 `json:"commitP50"` // 0 = none in that time
	CommitP99 float64 `json:"commitP99"`
	SyncP50   float64 `json:"syncP50"`
	SyncP99   float64 `json:"syncP99"`
	ReadP50   float64 `json:"readP50"`
	ReadP99   float64 `json:"readP99"`
	Files     float64 `json:"files"` // bytes in all files
	Live      float64 `json:"live"`
	Memory    float64 `json:"memory"`
}

// sampler makes points. It has no goroutine: whoever looks calls sample, and all who look share what
// it returns.
type sampler struct {
	db *brock.DB

	mu     sync.Mutex // guards:
	last   brock.Metrics
	lastAt time.Time // zero: there is no sample
	points []point   // the newest maxPoints
}

// sample returns the newest metrics and when they were taken: new ones if the last are older than
// about sampleEvery.
func (s *sampler) sample(ctx context.Context) (brock.Metrics, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A little less, as two viewers' tickers are not in step with the samples.
	if !s.lastAt.IsZero() && time.Since(s.lastAt) < sampleEvery*9/10 {
		return s.last, s.lastAt, nil
	}
	if _, err := s.db.Refresh(ctx); err != nil {
		return brock.Metrics{}, time.Time{}, err
	}
	m, at := s.db.Metrics(), time.Now()
	if took := at.Sub(s.lastAt); !s.lastAt.IsZero() && took <= maxGap {
		if len(s.points) == maxPoints {
			s.points = append(s.points[:0], s.points[1:]...)
		}
		s.points = append(s.points, makePoint(&m, &s.last, at, took))
	}
	s.last, s.lastAt = m, at
	return m, at, nil
}

// after returns the points behind a time in milliseconds.
func (s *sampler) after(at int64) []point {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := len(s.points)
	for i > 0 && s.points[i-1].At > at {
		i--
	}
	return append([]point{}, s.points[i:]...)
}

// makePoint returns the point between two samples.
func makePoint(now, before *brock.Metrics, at time.Time, took time.Duration) point {
	seconds := took.Seconds()
	rate := func(now, before int64) float64 { return round(float64(max(0, now-before)) / seconds) }
	n, b := &now.Tree, &before.Tree
	commit := since(&now.CommitLatency, &before.CommitLatency)
	sync := since(&now.SyncLatency, &before.SyncLatency)
	read := since(&now.ReadLatency, &before.ReadLatency)
	return point{
		At:        at.UnixMilli(),
		Version:   rate(int64(n.Version), int64(b.Version)),
		Commits:   rate(now.Commits, before.Commits),
		Entries:   rate(now.Entries, before.Entries),
		Bytes:     rate(now.Bytes, before.Bytes),
		Reads:     rate(now.Reads, before.Reads),
		Iterators: rate(now.Iterators, before.Iterators),
		Conflicts: rate(now.Conflicts, before.Conflicts),
		Retries:   rate(now.Retries, before.Retries),
		Stall:     round(min(1, max(0, (n.StallTime-b.StallTime).Seconds()/seconds))),
		Journal:   rate(n.JournalBytes, b.JournalBytes),
		Flushed:   rate(n.FlushedBytes, b.FlushedBytes),
		Compacted: rate(n.CompactedBytes, b.CompactedBytes),
		Collected: rate(n.CollectedBytes+n.SpilledBytes, b.CollectedBytes+b.SpilledBytes),
		CommitP50: round(quantile(commit, 0.5)),
		CommitP99: round(quantile(commit, 0.99)),
		SyncP50:   round(quantile(sync, 0.5)),
		SyncP99:   round(quantile(sync, 0.99)),
		ReadP50:   round(quantile(read, 0.5)),
		ReadP99:   round(quantile(read, 0.99)),
		Files:     float64(n.RunBytes + n.SegmentBytes + n.ForwardingBytes),
		Live:      float64(n.LiveBytes),
		Memory:    float64(now.MemoryBytes()),
	}
}

// round keeps three digits, so that 600 points are a small message.
func round(x float64) float64 {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	unit := math.Pow(10, 2-math.Floor(math.Log10(math.Abs(x))))
	if r := math.Round(x*unit) / unit; !math.IsNaN(r) && !math.IsInf(r, 0) {
		return r
	}
	return x // at the ends of the range, where the unit is beyond it
}
