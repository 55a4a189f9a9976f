package resources

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	runtimedebug "runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/base/invariant"
	"github.com/brockdb/brock/internal/test/kit/assert"
)

var (
	hugeKeys  = flag.Int("hugekeys", 200_000, "keys of TestHugeTransaction")
	hugeValue = flag.Int("hugevalue", 100, "bytes of each value of TestHugeTransaction")
	hugeDir   = flag.String("hugedir", "", "where TestHugeTransaction has its store; empty = a temporary directory")
)

// hugeLimit is the MemoryLimit of TestHugeTransaction.
const hugeLimit = 64 << 20

// anonymous returns the bytes of memory that no file backs; 0 = not known on this system.
func anonymous() (n int64) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	if _, at, found := bytes.Cut(status, []byte("RssAnon:")); found {
		fmt.Sscan(string(at), &n)
	}
	return n << 10
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/(1<<20)) }

// watch samples anonymous memory until stop is called. stop returns the peak.
func watch() (stop func() int64) {
	done := make(chan struct{})
	peak := make(chan int64)
	go func() {
		var most int64
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, anonymous())
			select {
			case <-tick.C:
			case <-done:
				peak <- most
				return
			}
		}
	}()
	return func() int64 { close(done); return <-peak }
}

// A transaction may be much larger than the memory that it takes, while another
// client writes. With -hugekeys 10000000, or -hugekeys 2500000 -hugevalue 4096,
// this measures what README and decision 26 report.
func TestHugeTransaction(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	runtimedebug.SetMemoryLimit(hugeLimit)
	defer runtimedebug.SetMemoryLimit(-1)
	dir := *hugeDir
	if dir == "" {
		dir = t.TempDir()
	}
	db, err := brock.Open(brock.Options{Dir: dir, MemoryLimit: hugeLimit})
	assert.OK(t, err)
	defer db.Close()
	stop := watch()
	begin := time.Now()
	txn, err := db.Begin(t.Context(), brock.TxnOptions{Update: true})
	assert.OK(t, err)
	defer txn.Discard()
	key, value := make([]byte, 16), make([]byte, *hugeValue)
	number := func(i int) { // a permutation, so that each spilled part has keys of the whole range
		copy(key, "huge")
		binary.BigEndian.PutUint64(key[8:], uint64(i)*0x9e3779b97f4a7c15)
		if len(value) >= 8 {
			binary.LittleEndian.PutUint64(value, uint64(i))
		}
	}
	for i := range *hugeKeys {
		number(i)
		assert.OK(t, txn.Set(key, value))
	}
	written := time.Since(begin)
	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	var pause time.Duration
	commits := 0
	others.Add(1)
	go func() {
		defer others.Done()
		for ; ctx.Err() == nil; commits++ {
			at := time.Now()
			if err := db.Set(fmt.Appendf(nil, "other %d", commits), []byte("x")); err != nil {
				t.Error(err)
			}
			pause = max(pause, time.Since(at))
		}
	}()
	begin = time.Now()
	assert.OK(t, txn.Commit())
	committed := time.Since(begin)
	cancel()
	others.Wait()
	peak := stop()
	m := db.Metrics()
	size := int64(*hugeKeys) * int64(len(key)+len(value))
	t.Logf("%d keys, %s: written in %v, committed in %v; anonymous memory %s at most; files written %s, %.2f times; %d other commits, the longest %v",
		*hugeKeys, megabytes(size), written, committed, megabytes(peak), megabytes(m.Tree.SpilledBytes), float64(m.Tree.SpilledBytes)/float64(size), commits, pause)
	if size > hugeLimit/2 {
		assert.Equal(t, "spills", m.Tree.Spills, 1)
	}
	if limit := int64(hugeLimit + 32<<20); !invariant.Enabled && peak > limit {
		t.Errorf("%s of anonymous memory, %s are allowed", megabytes(peak), megabytes(limit))
	}
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		for i := 0; i < *hugeKeys; i += 1 + *hugeKeys/1000 {
			number(i)
			it, err := txn.Get(key)
			if err != nil {
				return err
			}
			v, err := it.Value()
			if err != nil || !bytes.Equal(v, value) || it.Version() > db.Version() {
				t.Errorf("key %d: %d bytes of version %d, %v", i, len(v), it.Version(), err)
			}
		}
		return nil
	}))
}
