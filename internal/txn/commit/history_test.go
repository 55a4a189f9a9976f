package commit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sort"
	"sync"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/test/kit/draw"
)

// seen is what a transaction read, and what it wrote, once it is committed.
type seen struct {
	version, at entry.Version
	values      map[string]string    // key read -> value, "" = absent
	ranges      map[[2]string]string // range read -> its keys and values
	wrote       map[string]string    // "" = deleted
}

func (m *memory) scan(lo, hi string, at entry.Version) string {
	m.mu.Lock()
	var keys []string
	for k := range m.keys {
		if k >= lo && k < hi {
			keys = append(keys, k)
		}
	}
	m.mu.Unlock()
	sort.Strings(keys)
	s := ""
	for _, k := range keys {
		if v, ok := m.get(k, at); ok {
			s += k + "=" + v + " "
		}
	}
	return s
}

// Committers run random serializable transactions side by side. Replayed one
// after the other in the order of their versions, each must read what it read.
func TestConcurrentTransactionsAreSerializable(t *testing.T) {
	const committers, each, space = 8, 150, 12
	seed := draw.Seed(t)
	t.Logf("seed %d", seed)
	m := newMemory()
	p := start(m)
	var mu sync.Mutex
	var history []seen
	conflicts := 0
	var wg sync.WaitGroup
	for c := range committers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(c)))
			key := func() string { return fmt.Sprintf("%02d", rnd.IntN(space)) }
			for i := range each {
				x := seen{at: m.visible(), values: map[string]string{}, ranges: map[[2]string]string{}, wrote: map[string]string{}}
				var keys []string
				var ranges [][2]string
				for range rnd.IntN(3) {
					k := key()
					x.values[k], _ = m.get(k, x.at)
					keys = append(keys, k)
				}
				if rnd.IntN(3) == 0 {
					g := [2]string{key(), key()}
					x.ranges[g] = m.scan(g[0], g[1], x.at)
					ranges = append(ranges, g)
				}
				r := &Request{Check: Check{Reads: reads(keys, ranges), Since: x.at}, Synced: rnd.IntN(4) == 0}
				for range 1 + rnd.IntN(2) {
					k := key()
					if _, twice := x.wrote[k]; twice {
						continue
					}
					e := entry.Entry{Kind: entry.Delete, Key: []byte(k)}
					if rnd.IntN(4) > 0 {
						e.Kind, e.Value = entry.Set, fmt.Appendf(nil, "%d.%d", c, i)
					}
					x.wrote[k] = string(e.Value)
					r.Payload = entry.AppendRecord(r.Payload, &e, false)
					r.Records++
				}
				r.Payload = entry.PadRecords(r.Payload)
				runtime.Gosched() // so that others commit between its reads and its commit
				v, err := p.Commit(context.Background(), r)
				mu.Lock()
				if err == nil {
					x.version = v
					history = append(history, x)
				} else if errors.Is(err, errs.ErrConflict) {
					conflicts++
				} else {
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(history)+conflicts != committers*each || conflicts == 0 {
		t.Errorf("%d committed, %d conflicts", len(history), conflicts)
	}
	sort.Slice(history, func(i, j int) bool { return history[i].version < history[j].version })
	now := map[string]string{}
	for i, x := range history {
		if x.version != entry.Version(i+1) {
			t.Fatalf("version %d is missing", i+1)
		}
		if x.version <= x.at {
			t.Fatalf("version %d was published before it was committed", x.version)
		}
		for k, v := range x.values {
			if now[k] != v {
				t.Errorf("version %d read %s=%q at %d; in order it is %q", x.version, k, v, x.at, now[k])
			}
		}
		for g, v := range x.ranges {
			want := ""
			for n := range space {
				if k := fmt.Sprintf("%02d", n); k >= g[0] && k < g[1] && now[k] != "" {
					want += k + "=" + now[k] + " "
				}
			}
			if v != want {
				t.Errorf("version %d scanned %v: %q at %d; in order it is %q", x.version, g, v, x.at, want)
			}
		}
		for k, v := range x.wrote {
			now[k] = v
		}
	}
}

// Committers, cancellations, syncs, exclusive turns, a failure and Close all
// meet; every call returns, with an error that fits, and what was acknowledged
// is what was published.
func TestChaos(t *testing.T) {
	for _, broken := range []bool{false, true} {
		seed := draw.Seed(t)
		t.Logf("seed %d", seed)
		m := newMemory()
		p := start(m)
		if broken {
			left := 100
			m.append_ = func() error {
				if left--; left < 0 {
					return errDisk
				}
				return nil
			}
		}
		var mu sync.Mutex
		acknowledged := map[entry.Version]bool{}
		inside := false
		var wg sync.WaitGroup
		for c := range 8 {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(seed, uint64(c)))
				for range 200 {
					ctx, cancel := context.WithCancel(context.Background())
					switch rnd.IntN(8) {
					case 0:
						go cancel()
					case 1:
						wg.Go(func() {
							err := p.Do(context.Background(), func() error {
								if inside {
									t.Error("two exclusive turns at once")
								}
								inside = true
								inside = false
								return nil
							})
							checkError(t, err, broken)
						})
					case 2:
						checkError(t, p.Sync(ctx), broken)
					}
					r := request(m.visible(), Isolation(rnd.IntN(3)), fmt.Sprint(rnd.IntN(10)))
					r.Synced = rnd.IntN(2) == 0
					v, err := p.Commit(ctx, r)
					checkError(t, err, broken)
					if err == nil {
						if m.visible() < v {
							t.Errorf("version %d was acknowledged before it was visible", v)
						}
						mu.Lock()
						if acknowledged[v] {
							t.Errorf("version %d was given twice", v)
						}
						acknowledged[v] = true
						mu.Unlock()
					}
					cancel()
				}
			})
		}
		wg.Go(func() {
			for m.visible() < 500 && p.Err() == nil {
				p.Sync(context.Background())
			}
			p.Close()
		})
		wg.Wait()
		if len(acknowledged) != int(m.visible()) {
			t.Errorf("%d acknowledged, %d published", len(acknowledged), m.visible())
		}
		if p.hasLeader || len(p.queue.groups) > 0 {
			t.Error("the pipeline is not at rest")
		}
	}
}

func checkError(t *testing.T, err error, broken bool) {
	switch {
	case err == nil, errors.Is(err, errs.ErrConflict), errors.Is(err, context.Canceled), errors.Is(err, errs.ErrClosed):
	case broken && errors.Is(err, errs.ErrStopped) && errors.Is(err, errDisk):
	default:
		t.Errorf("unexpected error %v", err)
	}
}
