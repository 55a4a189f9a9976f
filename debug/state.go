package debug

import (
	"math"
	"net/http"
	"path/filepath"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
)

// storeState is what the first screen shows of one moment.
type storeState struct {
	At        int64              `json:"at"` // milliseconds since 1970, as all times
	Title     string             `json:"title"`
	Dir       string             `json:"dir,omitempty"`
	ValueDir  string             `json:"valueDir,omitempty"`
	Mode      string             `json:"mode"`
	Encrypted bool               `json:"encrypted"`
	InMemory  bool               `json:"inMemory"`
	Stopped   string             `json:"stopped,omitempty"` // why no more writes are taken
	Loss      *lossState         `json:"loss,omitempty"`
	PinnedBy  string             `json:"pinnedBy,omitempty"`
	Waiting   string             `json:"waiting,omitempty"` // background work that waits
	Metrics   map[string]float64 `json:"metrics"`           // by the names of docs/metrics.md
	Latencies map[string]latency `json:"latencies"`         // since the store was opened
	Keyspaces int                `json:"keyspaces"`         // that have names
	Limits    limits             `json:"limits"`
	Allowed   allowed            `json:"allowed"`
}

// lossState is a brock.Loss.
type lossState struct {
	Damage      string `json:"damage"`
	Version     uint64 `json:"version"`
	LastVersion uint64 `json:"lastVersion"`
	Commits     int64  `json:"commits"`
	Bytes       int64  `json:"bytes"`
}

// latency sums a histogram up. Quantiles are in seconds and may be off by a factor of two.
type latency struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Most  float64 `json:"most"` // an upper bound
}

// limits are options that explain what the page shows.
type limits struct {
	MemoryLimit  int64   `json:"memoryLimit"`
	DiskLimit    int64   `json:"diskLimit"`
	Durability   string  `json:"durability"`
	ScrubEvery   float64 `json:"scrubEvery"` // seconds
	GarbageRatio float64 `json:"garbageRatio"`
	FeedAge      float64 `json:"feedAge"` // seconds
	FeedBytes    int64   `json:"feedBytes"`
	Keeps        keeps   `json:"keeps"` // of the default keyspace
}

// keeps says which versions of a key stay.
type keeps struct {
	Versions int     `json:"versions"`
	Age      float64 `json:"age"` // seconds
	Manual   bool    `json:"manual"`
}

// allowed says what the page may ask for.
type allowed struct {
	Values  bool     `json:"values"`
	Actions []string `json:"actions"`
	Events  bool     `json:"events"`
}

func keepsOf(r brock.Retention) keeps { return keeps{r.Versions, r.Age.Seconds(), r.Manual} }

// state answers with the state of now.
func (h *handler) state(r *http.Request) (any, error) {
	if _, err := h.db.Refresh(r.Context()); err != nil {
		return nil, err
	}
	m := h.db.Metrics()
	return h.stateOf(&m, time.Now()), nil
}

// stateOf returns the state that metrics of that time tell.
func (h *handler) stateOf(m *brock.Metrics, at time.Time) *storeState {
	o := h.db.Options()
	s := &storeState{
		At: at.UnixMilli(), Title: h.titleOf(&o), Dir: o.Dir, Mode: o.Mode.String(), Encrypted: o.Keys != nil, InMemory: o.InMemory,
		PinnedBy: m.Tree.PinnedBy, Waiting: m.Tree.WorkWaiting,
		Metrics: make(map[string]float64), Latencies: make(map[string]latency),
		Limits: limits{
			MemoryLimit: o.MemoryLimit, DiskLimit: o.DiskLimit, Durability: o.Durability.String(),
			ScrubEvery: o.Maintenance.ScrubEvery.Seconds(), GarbageRatio: o.Maintenance.GarbageRatio,
			FeedAge: o.FeedRetention.Age.Seconds(), FeedBytes: o.FeedRetention.Bytes, Keeps: keepsOf(o.KeyspaceDefaults.Versions),
		},
		Allowed: allowed{Values: h.values, Actions: h.allowedActions(), Events: h.log != nil},
	}
	if o.ValueDir != o.Dir {
		s.ValueDir = o.ValueDir
	}
	if err := h.db.Err(); err != nil {
		s.Stopped = failureText(err)
	}
	if l := h.db.Loss(); l != nil {
		s.Loss = &lossState{Version: l.Version, LastVersion: l.LastVersion, Commits: l.Commits, Bytes: l.Bytes}
		if l.Damage != nil {
			s.Loss.Damage = l.Damage.Error()
		}
	}
	for range h.db.Keyspaces() {
		s.Keyspaces++
	}
	m.Each(func(name, _, _ string, _ brock.MetricKind, v float64) {
		if !math.IsNaN(v) && !math.IsInf(v, 0) { // JSON has neither
			s.Metrics[name] = v
		}
	})
	if s.Metrics["disk_free"] < 0 {
		s.Metrics["disk_free"] = float64(diskFree(&o))
	}
	m.EachHistogram(func(name, _, _ string, hist *brock.Histogram) {
		l := latency{Count: hist.Count, P50: quantile(hist, 0.5), P99: quantile(hist, 0.99), Most: hist.Quantile(1).Seconds()}
		if hist.Count > 0 {
			l.Mean = (hist.Sum / time.Duration(hist.Count)).Seconds()
		}
		s.Latencies[name] = l
	})
	return s
}

// diskFree asks the file system for what is left, where the store does not look since it writes nothing;
// -1 = not known.
func diskFree(o *brock.Options) int64 {
	fsys, dir := o.FS, o.ValueDir
	if fsys == nil {
		fsys = vfs.OS()
	}
	if dir == "" {
		dir = o.Dir
	}
	if dir == "" || o.InMemory {
		return -1
	}
	free, err := fsys.Free(dir)
	if err != nil {
		return -1
	}
	return free
}

func (c *config) titleOf(o *brock.Options) string {
	switch {
	case c.title != "":
		return c.title
	case o.Dir == "":
		return "store in memory"
	}
	return filepath.Base(o.Dir)
}

// quantile estimates a quantile in seconds. Within a bucket, from one power of two to the next, it
// goes up evenly: a chart of upper bounds would jump by a factor of two.
func quantile(h *brock.Histogram, q float64) float64 {
	rank := q * float64(h.Count)
	for i, n := range h.Buckets {
		if n == 0 {
			continue
		}
		if rank > float64(n) {
			rank -= float64(n)
			continue
		}
		if i == 0 {
			return 0
		}
		return math.Exp2(float64(i-1)+rank/float64(n)) / 1e9
	}
	return 0
}

// since returns what was counted after an earlier moment.
func since(now, before *brock.Histogram) *brock.Histogram {
	d := &brock.Histogram{Sum: now.Sum - before.Sum}
	for i := range now.Buckets {
		d.Buckets[i] = max(0, now.Buckets[i]-before.Buckets[i])
		d.Count += d.Buckets[i]
	}
	return d
}
