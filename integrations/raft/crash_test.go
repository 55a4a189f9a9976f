package raftstore

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/vfs"
	"github.com/hashicorp/raft"
)

// childDir is the variable that tells a process that it is the one to be killed.
const childDir = "BROCK_RAFT_TEST_DIR"

// TestKilled kills a process that appends, deletes and votes, again and again, at any moment. Each
// time the log has what was acknowledged, and of the call that ran all or nothing.
func TestKilled(t *testing.T) {
	if dir := os.Getenv(childDir); dir != "" {
		writeUntilKilled(t, dir)
		return
	}
	rng := draw.Rand(t)
	dir := t.TempDir()
	rounds := 40
	if testing.Short() {
		rounds = 8
	}
	want, calls := "vote 0; empty", 0
	for round := 0; round < rounds && !deadline.Near(t); round++ {
		acked, intended, n := runAndKill(t, dir, 1+rng.IntN(150))
		if acked == "" {
			acked = want
		}
		calls += n
		s, err := Open(dir, Options{})
		assert.OK(t, err)
		got := observe(t, s)
		if got != acked && got != intended {
			t.Fatalf("round %d: the log is\n%s\nwas acknowledged as\n%s\nand was to be\n%s", round, got, acked, intended)
		}
		want = got
		assert.OK(t, s.Close())
	}
	t.Logf("%d calls were acknowledged in %d processes", calls, rounds)
}

// runAndKill runs a child until it has acknowledged so many calls, and kills it. It returns the state
// that was acknowledged last, "" if none was, and the one that the next call was to make.
func runAndKill(t *testing.T, dir string, after int) (acked, intended string, calls int) {
	c := exec.Command(os.Args[0], "-test.run=^TestKilled$", "-test.timeout=0")
	c.Env = append(os.Environ(), childDir+"="+dir, fmt.Sprintf("BROCK_SEED=%d", rand.Uint32()))
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.StdoutPipe()
	assert.OK(t, err)
	assert.OK(t, c.Start())
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}()
	lines := bufio.NewReaderSize(out, 1<<20)
	killed := false
	for {
		line, err := lines.ReadString('\n')
		if err != nil { // all that it has said is read: it is dead
			break
		}
		word, state, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch word {
		case "intend":
			intended = state
		case "acknowledge":
			acked = state
			calls++
		}
		if calls >= after && !killed {
			// What it goes on to say until it dies also counts.
			killed = true
			assert.OK(t, c.Process.Kill())
		}
	}
	if !killed {
		t.Fatalf("the child ended by itself: %s", &said)
	}
	return acked, intended, calls
}

// writeUntilKilled says what it is about to do, does it, and says that it was done.
func writeUntilKilled(t *testing.T, dir string) {
	s, err := Open(dir, Options{})
	assert.OK(t, err)
	m, rng := readModel(t, s), draw.Rand(t)
	m.term++
	for {
		call := m.draw(rng)
		state := m.show()
		fmt.Println("intend", state)
		if err := call(s); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("acknowledge", state)
	}
}

// crashed is a disk as a power loss would have left it, with the states that may be on it.
type crashed struct {
	disk            *vfs.Mem
	acked, intended string
	mode            vfs.CrashMode
	op              string
}

// TestPowerLoss cuts the power in the middle of calls, at any operation on a file, and leaves any part
// of what was not synced. What was acknowledged is there, the call that ran all or not, and the log
// goes on.
func TestPowerLoss(t *testing.T) {
	rng := draw.Rand(t)
	worlds, calls := 30, 150
	if testing.Short() {
		worlds = 6
	}
	crashes := 0
	for world := 0; world < worlds && !deadline.Near(t); world++ {
		crashes += losePower(t, rand.New(rand.NewPCG(rng.Uint64(), 1)), calls)
	}
	if crashes < worlds && !deadline.Near(t) {
		t.Errorf("only %d crashes", crashes)
	}
	t.Logf("%d crashes", crashes)
}

// losePower runs calls on a new disk, and looks at some disks that crashes would have left.
func losePower(t *testing.T, rng *rand.Rand, calls int) int {
	var mu sync.Mutex // guards what follows: background work also uses files
	var found []crashed
	acked, intended := "vote 0; empty", "vote 0; empty"
	disk := vfs.NewMem()
	seeds := rand.New(rand.NewPCG(rng.Uint64(), 2))
	fs := faultfs.New(disk, faultfs.Options{Before: func(op faultfs.Op) {
		mu.Lock()
		defer mu.Unlock()
		// More often while the group is made than later.
		every := 25
		if len(found) < 8 {
			every = 3
		}
		if seeds.IntN(every) != 0 || len(found) >= 40 {
			return
		}
		o := vfs.CrashOptions{Mode: vfs.CrashMode(seeds.IntN(4)), Seed: seeds.Uint64()}
		found = append(found, crashed{disk.CrashClone(o), acked, intended, o.Mode, op.String()})
	}})
	s, err := OpenStore(smallFiles(fs), Options{})
	assert.OK(t, err)
	m := readModel(t, s)
	for range calls {
		call := m.draw(rng)
		mu.Lock()
		intended = m.show()
		mu.Unlock()
		assert.OK(t, call(s))
		mu.Lock()
		acked = intended
		mu.Unlock()
	}
	assert.Equal(t, "the log", observe(t, s), m.show())
	assert.OK(t, s.Close())
	for _, c := range found {
		after, err := OpenStore(smallFiles(c.disk), Options{})
		if err != nil {
			t.Fatalf("crash in mode %d before %s: %v", c.mode, c.op, err)
		}
		if got := observe(t, after); got != c.acked && got != c.intended {
			t.Fatalf("crash in mode %d before %s: the log is\n%s\nwas acknowledged as\n%s\nand was to be\n%s",
				c.mode, c.op, got, c.acked, c.intended)
		}
		last, _ := after.LastIndex()
		assert.OK(t, after.StoreLog(entry(last+1, 99, 0)))
		checkLog(t, after)
		assert.OK(t, after.Close())
	}
	return len(found)
}

// TestFailures lets each operation on a file fail once, by an error that passes or one that doesn't. A
// call that fails has left nothing, or has stopped the store; then the next Open finds all or nothing
// of it.
func TestFailures(t *testing.T) {
	seed, step := draw.Seed(t), 1
	if testing.Short() {
		step = 9
	}
	failures, stops := 0, 0
	for _, cause := range []error{faultfs.ErrNoSpace, faultfs.ErrIO} {
		for nth := 1 + int(seed%uint64(step)); !deadline.Near(t); nth += step {
			failed, stopped, struck := failOnce(t, seed, nth, cause)
			if !struck {
				break
			}
			if failed {
				failures++
			}
			if stopped {
				stops++
			}
		}
	}
	if (failures == 0 || stops == 0) && !deadline.Near(t) {
		t.Errorf("%d calls failed, %d of them for good: the faults strike nothing", failures, stops)
	}
	t.Logf("%d calls failed, %d of them for good", failures, stops)
}

// failOnce runs calls of which the nth change of a file fails.
func failOnce(t *testing.T, seed uint64, nth int, cause error) (failed, stopped, struck bool) {
	disk := vfs.NewMem()
	fs := faultfs.New(disk, faultfs.Options{})
	s, err := OpenStore(smallFiles(fs), Options{})
	assert.OK(t, err)
	m, rng := readModel(t, s), rand.New(rand.NewPCG(seed, 3))
	fs.Inject(faultfs.Fault{Kinds: faultfs.Changes | faultfs.Syncs, Nth: nth, Err: cause, Short: nth%2 == 0})
	acked := m.show()
	for range 40 {
		call := m.draw(rng)
		err := call(s)
		if err == nil {
			acked = m.show()
			continue
		}
		failed = true
		if got := observe(t, s); got != acked {
			t.Fatalf("fault %d, %v: after %v the log is\n%s\nand not\n%s", nth, cause, err, got, acked)
		}
		if errors.Is(err, brock.ErrStopped) {
			stopped = true
			break
		}
		if !errors.Is(err, brock.ErrNoSpace) && !errors.Is(err, brock.ErrRefused) {
			t.Fatalf("fault %d, %v: %v", nth, cause, err)
		}
		// It has passed: the same call succeeds.
		if again := call(s); again != nil {
			t.Fatalf("fault %d, %v: after %v the call fails again: %v", nth, cause, err, again)
		}
		acked = m.show()
	}
	err = s.Close()
	if struck = fs.Struck() > 0; err != nil && !struck {
		t.Fatal(err)
	}
	s, err = OpenStore(smallFiles(disk), Options{})
	if err != nil {
		t.Fatalf("fault %d, %v: %v", nth, cause, err)
	}
	if got := observe(t, s); got != acked && got != m.show() {
		t.Fatalf("fault %d, %v: the log is\n%s\nwas acknowledged as\n%s\nand was to be\n%s", nth, cause, got, acked, m.show())
	}
	assert.OK(t, s.Close())
	return failed, stopped, struck
}

// TestFullDisk fills the disk: appends and votes are refused and leave nothing, reads go on, and once
// the head of the log was deleted there is space again.
func TestFullDisk(t *testing.T) {
	// Larger than the garbage that a store keeps at rest, whatever is live: 64 MB.
	const capacity = 96 << 20
	disk := vfs.NewMem()
	disk.SetCapacity(capacity)
	o := smallFiles(disk)
	o.Tuning.SegmentSize, o.Maintenance.IdleAfter = 4<<20, 50*time.Millisecond
	s, err := OpenStore(o, Options{})
	assert.OK(t, err)
	m := readModel(t, s)
	store := func(n int) (err error) {
		var logs []*raft.Log
		for i := range n {
			logs = append(logs, entry(m.last()+1+uint64(i), 1, 4000))
		}
		if err = s.StoreLogs(logs); err == nil {
			for range n {
				m.terms = append(m.terms, 1)
			}
		}
		return err
	}
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		deadline.Wait(t, "the disk is full", func() bool {
			err := store(64)
			if err != nil && (!errors.Is(err, brock.ErrNoSpace) || errors.Is(err, brock.ErrStopped)) {
				t.Fatal(err)
			}
			return err != nil
		})
		assert.Equal(t, "the full log", observe(t, s), m.show())
		n := uint64(len(m.terms)) - 20
		assert.OK(t, s.DeleteRange(0, m.first+n-1))
		m.first, m.terms = m.first+n, m.terms[n:]
		assert.Equal(t, "what is left", observe(t, s), m.show())
		deadline.Wait(t, "there is space", func() bool {
			err := store(16)
			if err != nil && !errors.Is(err, brock.ErrNoSpace) {
				t.Fatal(err)
			}
			return err == nil
		})
	}
	assert.OK(t, s.Close())
	s, err = OpenStore(o, Options{})
	assert.OK(t, err)
	assert.Equal(t, "the log", observe(t, s), m.show())
	assert.OK(t, s.Close())
}
