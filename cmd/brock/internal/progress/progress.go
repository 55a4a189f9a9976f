// Package progress shows how far a long piece of work has come: a bar with rate
// and time left on a terminal, a plain line now and then elsewhere. Work of less
// than a second shows nothing.
package progress

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/brockdb/brock/cmd/brock/internal/human"
)

const (
	patience     = time.Second            // nothing is shown before
	barPeriod    = 150 * time.Millisecond // between two drawings
	linePeriod   = 5 * time.Second        // between two plain lines
	unknownTotal = -1                     // as the bar knows it
)

// Output is where progress is shown.
type Output struct {
	w        io.Writer
	terminal bool
}

// To returns the Output for a stream.
func To(f *os.File) *Output {
	return &Output{w: f, terminal: term.IsTerminal(int(f.Fd()))}
}

// Work is one piece of work in progress. Add may be called by any number of goroutines.
type Work struct {
	out   *Output
	name  string
	total int64 // bytes; 0 = unknown
	begin time.Time
	done  atomic.Int64
	end   chan struct{}
	wait  sync.WaitGroup
}

// Start begins to show a piece of work of total bytes; 0 if that is unknown.
func (o *Output) Start(name string, total int64) *Work {
	w := &Work{out: o, name: name, total: total, begin: time.Now(), end: make(chan struct{})}
	w.wait.Go(w.show)
	return w
}

// Add says that n more bytes are done.
func (w *Work) Add(n int64) { w.done.Add(n) }

// End ends the work and removes its bar.
func (w *Work) End() {
	close(w.end)
	w.wait.Wait()
}

func (w *Work) show() {
	draw, period := w.line, linePeriod
	if w.out.terminal {
		bar := w.bar()
		defer func() { _ = bar.Clear() }()
		draw, period = func() { w.draw(bar) }, barPeriod
	}
	select {
	case <-w.end:
		return
	case <-time.After(patience):
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		draw()
		select {
		case <-w.end:
			return
		case <-tick.C:
		}
	}
}

// bar returns a bar that measures from now on, and draws only when it is told to.
func (w *Work) bar() *progressbar.ProgressBar {
	total := w.total
	if total == 0 {
		total = unknownTotal
	}
	bar := progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(w.out.w),
		progressbar.OptionSetDescription("  "+w.name),
		progressbar.OptionShowBytes(true),
		progressbar.OptionSetWidth(30),
		progressbar.OptionSetSpinnerChangeInterval(0),
		progressbar.OptionClearOnFinish(),
	)
	bar.StartWithoutRender()
	return bar
}

// draw shows the bar as it is now: by RenderBlank too, as Set64 alone draws
// nothing while the percentage stays.
func (w *Work) draw(bar *progressbar.ProgressBar) {
	done := w.done.Load()
	if w.total > 0 {
		done = min(done, w.total)
	}
	_ = errors.Join(bar.Set64(done), bar.RenderBlank()) // a terminal that is gone is no error of the work's
}

func (w *Work) line() {
	done, took := w.done.Load(), time.Since(w.begin)
	switch {
	case done == 0:
		fmt.Fprintf(w.out.w, "%s: %v\n", w.name, took.Round(time.Second))
	case w.total == 0:
		fmt.Fprintf(w.out.w, "%s: %s, %s\n", w.name, human.Bytes(done), human.ByteRate(done, took))
	default:
		left := time.Duration(float64(took) / float64(done) * float64(max(w.total-done, 0)))
		fmt.Fprintf(w.out.w, "%s: %d%% of %s, %s, %v left\n", w.name, 100*done/w.total, human.Bytes(w.total), human.ByteRate(done, took), left.Round(time.Second))
	}
}
