package main

import (
	"fmt"
	"io"
	"time"

	"github.com/brockdb/brock/importers"
)

const (
	patience   = time.Second            // nothing is shown before
	barPeriod  = 150 * time.Millisecond // between two drawings on a terminal
	linePeriod = 5 * time.Second        // between two lines elsewhere
)

// progress shows how far a step has come, as brock does: on a terminal in one line that is drawn again,
// elsewhere a line now and then.
type progress struct {
	w        io.Writer
	terminal bool
	now      func() time.Time

	step  string
	begin time.Time // of the step
	from  int64     // what was done when it began
	shown time.Time // when something was shown last; zero = nothing is on the terminal
	drawn bool      // the line on the terminal is not empty
}

// show is called by one goroutine.
func (p *progress) show(at importers.Progress) {
	now := p.now()
	if at.Step != p.step {
		p.end()
		p.step, p.begin, p.from, p.shown = at.Step, now, at.Bytes, now.Add(patience-linePeriod)
		if p.terminal {
			p.shown = now.Add(patience - barPeriod)
		}
		return
	}
	period := linePeriod
	if p.terminal {
		period = barPeriod
	}
	if now.Sub(p.shown) < period {
		return
	}
	p.shown = now
	text := progressText(at, at.Bytes-p.from, now.Sub(p.begin))
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K  %s", text)
		p.drawn = true
		return
	}
	fmt.Fprintln(p.w, text)
}

// end clears the line on the terminal.
func (p *progress) end() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}

// progressText returns a line: moved bytes were done in the time that the step took so far.
func progressText(at importers.Progress, moved int64, took time.Duration) string {
	rate := float64(moved) / max(took.Seconds(), 1e-6)
	switch {
	case moved == 0:
		return fmt.Sprintf("%s: %v", at.Step, took.Round(time.Second))
	case at.Total == 0:
		return fmt.Sprintf("%s: %s, %s/s", at.Step, size(at.Bytes), size(int64(rate)))
	}
	left := time.Duration(float64(max(at.Total-at.Bytes, 0)) / rate * float64(time.Second))
	return fmt.Sprintf("%s: %d%% of %s, %s/s, %v left", at.Step, 100*at.Bytes/at.Total, size(at.Total), size(int64(rate)), left.Round(time.Second))
}

// size returns bytes in decimal units, as "12.3 MB".
func size(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	f, i := float64(n)/1000, 0
	for f >= 999.5 && i < 5 {
		f, i = f/1000, i+1
	}
	digits := 2
	switch {
	case f >= 99.95:
		digits = 0
	case f >= 9.995:
		digits = 1
	}
	return fmt.Sprintf("%.*f %cB", digits, f, "kMGTPE"[i])
}

// count returns a number with its thousands apart, as "11,478".
func count(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
