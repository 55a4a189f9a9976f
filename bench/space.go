package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/brockdb/brock/bench/internal/kv"
)

// spaceConfig is what the flags of `bench space` say.
type spaceConfig struct {
	size      int64
	valueSize int
	factor    float64
	rate      float64
	ttl       time.Duration
	rest      time.Duration
	sync      bool
}

// runSpace is the command `bench space`: how much disk stores take over time,
// against what is live in them.
func runSpace(args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("bench space", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var (
		stores = flags.String("stores", "brock", "stores, with commas between: all, "+kv.Names(spaceMakers())+", badger-log-gc")
		works  = flags.String("works", "all", "works, with commas between: delete, uniform, zipf, ttl, queue, large")
		ratios = flags.String("ratios", "", "values of Brock's Maintenance.GarbageRatio, with commas between; none = its default")
		size   = flags.Int64("mb", 256, "live data in MB")
		value  = flags.Int("value", 4096, "bytes of a value")
		factor = flags.Float64("factor", 10, "how many times the data is overwritten")
		rate   = flags.Float64("rate", 0, "at most this many MB a second; 0 = no limit")
		ttl    = flags.Duration("ttl", 3*time.Second, "time to live in the work ttl, which takes factor times as long")
		rest   = flags.Duration("rest", time.Minute, "how long to watch after the last write")
		synced = flags.Bool("sync", false, "make each commit durable")
		parent = flags.String("dir", "", "directory for the stores; they go into a new one inside (default: the system's temporary directory)")
		svg    = flags.String("svg", "", "file for a plot of disk use over time")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	c := spaceConfig{size: *size << 20, valueSize: *value, factor: *factor, rate: *rate * (1 << 20), ttl: *ttl, rest: *rest, sync: *synced}
	if c.size < 1 || c.valueSize < 0 || c.factor < 0 || c.ttl < time.Second {
		return errors.New("-mb and -value must be positive, -ttl a second at least")
	}
	pickedStores, err := pickSpaceStores(*stores, *ratios)
	if err != nil {
		return err
	}
	pickedWorks, err := pickSpaceWorks(*works)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(*parent, "brock-space-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	removeWhenInterrupted(dir)

	var makers []kv.Maker
	for _, s := range pickedStores {
		makers = append(makers, s.Maker)
	}
	newRun(makers, dir).Print(stdout)
	var plot plot
	for _, w := range pickedWorks {
		p := panel{title: w.name + ": " + w.title}
		table := tabwriter.NewWriter(stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(stdout, "\n%s; %d MB live\n", p.title, c.size>>20)
		fmt.Fprintln(table, "store\tseconds\tk ops/s\twritten/user\tmax disk MB\tmax ratio\taverage\tend\t+5 s\tlast\tlast MB\tmax files MB\t")
		for _, s := range pickedStores {
			if s.MinValue > c.valueSize {
				continue
			}
			fmt.Fprintf(stderr, "%s on %s...\n", w.name, s.label)
			r, err := measureSpace(filepath.Join(dir, "store"), s, w, c)
			switch {
			case errors.Is(err, kv.ErrNoTTL):
				fmt.Fprintf(table, "%s\tno time to live\t\t\t\t\t\t\t\t\t\t\t\n", s.label)
				continue
			case err != nil:
				return fmt.Errorf("%s on %s: %w", w.name, s.label, err)
			}
			r.print(table, s.label)
			p.lines = append(p.lines, line{label: s.label, points: r.points})
		}
		if err := table.Flush(); err != nil {
			return err
		}
		plot.panels = append(plot.panels, p)
	}
	if *svg == "" {
		return nil
	}
	return os.WriteFile(*svg, plot.svg("go run ./bench space "+strings.Join(args, " ")), 0o644)
}

// spaceResult is what one work on one store came to.
type spaceResult struct {
	took    time.Duration // of the work, without the rest
	ops     int64
	user    int64 // bytes of keys and values written
	written int64 // bytes written to files, until the end of the rest
	end     int   // index of the last point of the work
	points  []point
	begin   int // index of the first point of the work
}

// measureSpace has a store work and rest in an empty directory.
func measureSpace(dir string, s spaceStore, w spaceWork, c spaceConfig) (r spaceResult, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	config := kv.Config{Dir: dir, Sync: c.sync, ValueSize: c.valueSize, DataBytes: c.size, Overwrites: true, GarbageRatio: s.ratio}
	store, err := s.Open(config)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	ch := newChurn(store, c, w)
	if w.ttl {
		if err := applier(store).Apply([]kv.Change{{Key: []byte("probe"), Value: []byte("v"), TTL: time.Second}}); err != nil {
			return r, err
		}
	}
	if w.load {
		if err := ch.load(); err != nil {
			return r, err
		}
	}
	settle()
	flushDisk()
	full := make(chan error, 1)
	stop := make(chan struct{})
	ch.stop = stop
	watch := watchSpace(dir, ch, func(err error) { full <- err; close(stop) })
	before := bytesWritten()
	user, ops := ch.written.Load(), ch.ops.Load()
	ch.began, ch.pace = time.Now(), user
	r.begin = watch.look()
	workErr := w.run(ch)
	r.took = time.Since(ch.began)
	r.end = watch.look()
	r.ops, r.user = ch.ops.Load()-ops, ch.written.Load()-user
	if w.ttl {
		ch.live.Store(0)
	}
	if workErr == nil {
		time.Sleep(c.rest)
	}
	watch.look()
	r.points = watch.close()
	flushDisk()
	r.written = bytesWritten() - before
	select {
	case err := <-full:
		return r, err
	default:
	}
	if workErr != nil || w.ttl {
		return r, workErr
	}
	return r, ch.check()
}

// print adds a line to the table. Ratios are of disk to live; of what the work
// leaves live while it runs, and after it.
func (r *spaceResult) print(out io.Writer, label string) {
	var worst, sum, weight float64
	var most, files int64
	for i := r.begin; i <= r.end; i++ {
		p := r.points[i]
		most, files = max(most, p.disk), max(files, p.files)
		if i > r.begin && p.live > 0 {
			d := (p.at - r.points[i-1].at).Seconds()
			worst, sum, weight = max(worst, p.ratio()), sum+p.ratio()*d, weight+d
		}
	}
	last := r.points[len(r.points)-1]
	after := r.points[r.end]
	for _, p := range r.points[r.end:] {
		if p.at-r.points[r.end].at <= 5*time.Second {
			after = p
		}
	}
	const mb = 1 << 20
	fmt.Fprintf(out, "%s\t%.1f\t%.1f\t%.2f\t%d\t%.2f\t%.2f\t%s\t%s\t%s\t%d\t%d\t\n", label, r.took.Seconds(),
		float64(r.ops)/r.took.Seconds()/1e3, float64(r.written)/float64(max(r.user, 1)), most/mb, worst, sum/max(weight, 1e-9),
		r.points[r.end].text(), after.text(), last.text(), last.disk/mb, files/mb)
}
