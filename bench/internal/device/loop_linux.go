package device

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// loop reads by pread with O_DIRECT. Each request has a thread of its own, and as
// many processors of Go's scheduler as there are requests: a thread that waits for
// the disk keeps one for a while.
func loop(file string, depth int, slice time.Duration) (Rate, error) {
	fd, err := syscall.Open(file, syscall.O_RDONLY|syscall.O_DIRECT|syscall.O_CLOEXEC, 0)
	if err != nil {
		return Rate{}, err
	}
	defer syscall.Close(fd)
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return Rate{}, err
	}
	blocks := st.Size / Block
	if blocks == 0 {
		return Rate{}, errors.New("device: the file is shorter than a block")
	}
	before := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(max(before, depth))
	defer runtime.GOMAXPROCS(before)
	cpu, start := cpuTime(), time.Now()
	took := make([][]time.Duration, depth)
	errs := make([]error, depth)
	var wg sync.WaitGroup
	for w := range depth {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			rng, b := rand.New(rand.NewPCG(1, uint64(w))), aligned()
			for at := time.Now(); at.Sub(start) < slice; {
				if _, errs[w] = syscall.Pread(fd, b, rng.Int64N(blocks)*Block); errs[w] != nil {
					return
				}
				now := time.Now()
				took[w], at = append(took[w], now.Sub(at)), now
			}
		})
	}
	wg.Wait()
	all, elapsed := slices.Concat(took...), time.Since(start)
	if err := errors.Join(errs...); err != nil || len(all) == 0 {
		return Rate{}, errors.Join(err, errors.New("device: not all was read"))
	}
	slices.Sort(all)
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	return Rate{
		Reads: float64(len(all)) / elapsed.Seconds(), P50: us(all[len(all)/2]), P99: us(all[len(all)*99/100]),
		CPU: us(cpuTime()-cpu) / float64(len(all)),
	}, nil
}

// aligned returns a block of memory at an address that direct reads take.
func aligned() []byte {
	b := make([]byte, 2*Block)
	return b[(Block-int(uintptr(unsafe.Pointer(&b[0]))%Block))%Block:][:Block]
}

func cpuTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
