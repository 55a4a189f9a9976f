package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/brockdb/brock/bench/internal/cage"
	"github.com/brockdb/brock/bench/internal/device"
	"github.com/brockdb/brock/bench/internal/kv"
	"github.com/brockdb/brock/bench/internal/result"
)

// Colder is the data that is larger than memory.
type Colder struct {
	Size   Size
	Memory int64 // bytes that a reading process may take, page cache included
	Own    int64 // bytes of it on its own heap
}

func goroutines(n int) string {
	if n == 1 {
		return "one goroutine"
	}
	return fmt.Sprint(n, " goroutines")
}

const (
	deviceFile = 4 << 30 // most bytes of the file that the disk's own rate is taken from

	coldLoad, largeLoad = "cold load", "cold load of large values" // steps
)

func coldWorkloads() []Workload {
	const cold = ", more data than memory, caches dropped"
	gets := []Figure{
		{Name: "k/s", Better: More}, {Name: "p50 us", Better: Less}, {Name: "p99 us", Better: Less},
		{Name: "kB read/op", Better: Less}, {Name: "CPU us/op", Better: Less}, {Name: "major faults/op"},
	}
	add := func(list []Workload, name, title string, figures []Figure, t ColdTask) []Workload {
		return append(list, Workload{Name: name, Title: title + cold, Figures: figures, Kind: Cold, Cold: &t})
	}
	var list []Workload
	for _, n := range []int{1, 16, 64} {
		list = add(list, fmt.Sprintf("coldget%d", n), fmt.Sprintf("values of %%d B, random keys drawn evenly, %s", goroutines(n)), gets, ColdTask{Do: "get", Goroutines: n})
	}
	list = add(list, "coldzipf16", "values of %d B, keys by Zipf 0.99, 16 goroutines", gets, ColdTask{Do: "get", Goroutines: 16, Zipf: true})
	entries := append([]Figure{{Name: "k entries/s", Better: More}}, gets[3:]...)
	list = add(list, "coldscan", "values of %d B, one scan with values from a random key on, as loaded; op: an entry", entries, ColdTask{Do: "scan", Goroutines: 1})
	list = add(list, "coldseek", "values of %d B, new iterator, seek to a random key, 50 pairs with values", gets, ColdTask{Do: "seek", Goroutines: 1})
	return add(list, "coldlarge", "values of 64 KB and 2,932 KB in turn (for stores of %d B), gets of the large ones, one goroutine", gets, ColdTask{Do: "large", Goroutines: 1})
}

// cold runs the workloads on more data than memory. Each slice is a process of
// its own in a cage. It returns what could not be measured, and why.
func (r *runner) cold() (leftOut []string, err error) {
	box, err := cage.New(r.Cold.Memory)
	if errors.Is(err, cage.ErrUnavailable) {
		return []string{"data larger than memory: " + err.Error()}, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, box.Remove()) }()
	data := NewDataset(r.Cold.Size.Keys, r.Cold.Size.Bytes)
	disk := filepath.Join(r.Dir, "device")
	if err := writeDeviceFile(disk, data, min(data.RawBytes(), deviceFile)); err != nil {
		return nil, err
	}
	defer os.Remove(disk)

	makers := r.makers(data.ValueSize, Workload{})
	var readings []reading
	for _, w := range r.kind(Cold) {
		t := newTable(w, makers, data)
		if w.Cold.Do == "get" && !w.Cold.Zipf {
			t.Rows = append(t.Rows, &result.Row{Store: device.Tool() + " 4 KB", Reference: true})
		}
		readings = append(readings, reading{w, t})
	}
	// All stores at once if the disk holds them, so that they take turns.
	group := len(makers)
	if _, free := fileSystem(r.Dir); free < int64(len(makers))*data.RawBytes()*3 {
		fmt.Fprintln(r.Log, "the stores don't fit on the disk together: one after the other")
		group = 1
	}
	for i := 0; i < len(makers); i += group {
		err := r.coldGroup(box, readings, makers, i, min(i+group, len(makers)), data, disk)
		if err := errors.Join(err, r.forget()); err != nil {
			return nil, err
		}
	}
	for _, w := range readings {
		r.report(w.table)
	}
	return nil, nil
}

// coldGroup loads the stores from number lo to hi, and lets them take turns.
func (r *runner) coldGroup(box *cage.Cage, readings []reading, makers []kv.Maker, lo, hi int, data *Dataset, disk string) error {
	for _, m := range makers[lo:hi] {
		if err := r.load(m, data, coldLoad); err != nil {
			return fmt.Errorf("load %s: %w", m.Name, err)
		}
	}
	for _, w := range readings {
		if w.Cold.Do == "large" {
			if err := r.loadLarge(makers[lo:hi], data); err != nil {
				return err
			}
		}
		for slice := range r.Slices {
			for i := range hi - lo {
				at := lo + (slice+i)%(hi-lo)
				r.progress.begin(stepName(w.Name, data.ValueSize), fmt.Sprintf("%s %s, slice %d", w.Name, makers[at].Name, slice+1))
				r.slice(w.table, w.table.Rows[at], func() ([]float64, error) { return r.coldSlice(box, w, makers[at], data, slice) })
			}
			if ref := w.table.Rows[len(w.table.Rows)-1]; ref.Reference && lo == 0 {
				r.slice(w.table, ref, func() ([]float64, error) { return deviceFigures(disk, w.Cold.Goroutines, r.Waits) })
			}
		}
	}
	return nil
}

func deviceFigures(file string, depth int, waits Waits) ([]float64, error) {
	d, err := device.Read(file, depth, waits.ColdSlice)
	return []float64{d.Reads / 1e3, d.P50, d.P99, device.Block / 1e3, d.CPU, 0}, err
}

// coldSlice runs one slice in a new process, which begins when it is in the cage.
func (r *runner) coldSlice(box *cage.Cage, w reading, m kv.Maker, data *Dataset, slice int) ([]float64, error) {
	t := *w.Cold
	t.Seed, t.Own = uint64(slice), r.Cold.Own
	task := childTask{Task: "cold", Store: m.Name, Keys: data.Keys, Waits: r.Waits, Cold: t}
	task.Config = kv.Config{Dir: r.storeDir(m, data), ValueSize: data.ValueSize, DataBytes: data.RawBytes(), Memory: r.Cold.Memory}
	if t.Do == "large" {
		task.Config, task.Cold.LargeBytes = newLargeData(data.RawBytes()).config(r.largeDir(m, data)), data.RawBytes()
		task.Config.Memory = r.Cold.Memory
	}
	if err := r.Waits.dropCaches(); err != nil {
		return nil, err
	}
	cmd, err := child(task)
	if err != nil {
		return nil, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	addErr := box.Add(cmd.Process.Pid)
	if addErr == nil {
		_, addErr = in.Write([]byte{'g'})
	}
	closeErr := in.Close()
	text, readErr := io.ReadAll(out)
	if err := errors.Join(addErr, closeErr, readErr, cmd.Wait()); err != nil {
		return nil, fmt.Errorf("in %d MB of memory: %w", r.Cold.Memory>>20, err)
	}
	return parseFigures(text)
}

func (r *runner) largeDir(m kv.Maker, data *Dataset) string { return r.storeDir(m, data) + "-large" }

// loadLarge writes as many bytes of large values as data has.
func (r *runner) loadLarge(makers []kv.Maker, data *Dataset) error {
	d := newLargeData(data.RawBytes())
	for _, m := range makers {
		dir := r.largeDir(m, data)
		r.progress.begin(largeLoad, "loading "+m.Name+" with large values")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		r.loaded[dir] = true
		s, err := m.Open(d.config(dir))
		if err != nil {
			return fmt.Errorf("load %s: %w", m.Name, err)
		}
		_, err = d.timeBySize(inOrder(d.pairs), func(i int, key []byte) error { return s.Set(key, d.value(i)) })
		if err == nil {
			_, err = r.Waits.quiet(s)
		}
		if err := errors.Join(err, s.Close()); err != nil {
			return fmt.Errorf("load %s: %w", m.Name, err)
		}
	}
	return nil
}

// writeDeviceFile writes bytes that no disk compresses.
func writeDeviceFile(name string, data *Dataset, size int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(14, 15))
	for size > 0 && err == nil {
		at := rng.IntN(poolBytes / 2)
		_, err = f.Write(data.pool[at : at+int(min(size, poolBytes/2))])
		size -= poolBytes / 2
	}
	return errors.Join(err, f.Sync(), f.Close())
}
