package main

import (
	"fmt"
	"io"
	"time"
)

// progress says what is measured, how far the run is and how long it may take
// yet. A step takes as long as the same step did before, or as all did on average.
type progress struct {
	out   io.Writer
	now   func() time.Time
	steps []string // the keys of steps to come, in any order
	took  map[string]*average
	all   average
	total int
	began time.Time
	key   string // of the step under way
}

type average struct {
	sum time.Duration
	n   int
}

func (a *average) add(d time.Duration) { a.sum, a.n = a.sum+d, a.n+1 }

func (a *average) get() time.Duration { return a.sum / time.Duration(max(a.n, 1)) }

func newProgress(out io.Writer) *progress {
	return &progress{out: out, now: time.Now, took: map[string]*average{}}
}

// plan adds n steps of one kind.
func (p *progress) plan(key string, n int) {
	for range n {
		p.steps = append(p.steps, key)
	}
	p.total += n
}

// begin ends the step before and begins one of the key.
func (p *progress) begin(key, what string) {
	p.end()
	left := ""
	if p.all.n > 0 {
		left = ", about " + round(p.left()) + " left"
	}
	for i, s := range p.steps {
		if s == key {
			p.steps[i] = p.steps[len(p.steps)-1]
			p.steps = p.steps[:len(p.steps)-1]
			break
		}
	}
	fmt.Fprintf(p.out, "[%d/%d%s] %s\n", p.total-len(p.steps), p.total, left, what)
	p.key, p.began = key, p.now()
}

func (p *progress) end() {
	if p.key == "" {
		return
	}
	d := p.now().Sub(p.began)
	if p.took[p.key] == nil {
		p.took[p.key] = &average{}
	}
	p.took[p.key].add(d)
	p.all.add(d)
	p.key = ""
}

// left returns how long the remaining steps may take.
func (p *progress) left() (sum time.Duration) {
	for _, s := range p.steps {
		if a := p.took[s]; a != nil {
			sum += a.get()
		} else {
			sum += p.all.get()
		}
	}
	return sum
}

func round(d time.Duration) string {
	switch {
	case d >= time.Hour:
		return fmt.Sprintf("%.1f h", d.Hours())
	case d >= 90*time.Second:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}
