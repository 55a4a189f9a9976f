package metamorphic

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/brockdb/brock"
)

// A real process writes to a real directory, and is killed again and again. What it
// writes depends only on a seed and the number of the step. So the number of
// acknowledged steps says every byte that the store must have.

var killsFlag = flag.Int("kills", 0, "how often TestKilled kills its writer; 0 = a few times")

const (
	doomedDir      = "BROCK_METAMORPHIC_DOOMED" // directory of the store, in the writer's environment
	doomedFrom     = "BROCK_METAMORPHIC_FROM"   // number of its first commit
	doomedWithKeys = "BROCK_METAMORPHIC_KEYS"   // not "" if the store is encrypted
	doomedSeed     = 20261
	doomedKeys     = 3000
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(followsDoomed); dir != "" {
		fmt.Fprintln(os.Stderr, following(dir))
		os.Exit(1)
	}
	if dir := os.Getenv(doomedDir); dir != "" {
		fmt.Fprintln(os.Stderr, doomed(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// doomedOptions makes all kinds of background work run all the time.
func doomedOptions(dir string) brock.Options {
	var keys brock.KeyProvider
	if os.Getenv(doomedWithKeys) != "" {
		keys = testKeys
	}
	return brock.Options{Dir: dir, Keys: keys, KeyspaceDefaults: brock.KeyspaceOptions{Compression: brock.S2, CompressAbove: 200}, Tuning: brock.Tuning{MemtableSize: 256 << 10, SegmentSize: 1 << 20, RunFileSize: 1 << 20}}
}

// change is one write of a commit.
type change struct {
	keyspace   bool // the other keyspace, not the default one
	key, value []byte
	upper      []byte // not nil: all keys from key up to it are deleted
}

// A doomedStep is a commit, or makes or drops the other keyspace.
type doomedStep uint8

const (
	commitStep doomedStep = iota
	makeStep
	clearStep
	dropStep
)

const otherKeyspace = "other"

// doneKey has the number of the last commit as its value.
const doneKey = "done"

// kind returns what the n-th step is, and whether the other keyspace exists before it.
func kind(n uint64) (s doomedStep, there bool) {
	const cycle, made, cleared = 60, 10, 40 // of the keyspace
	switch at := n % cycle; {
	case at == made:
		return makeStep, false
	case at == 0 && n > 0:
		return dropStep, true
	case at == cleared:
		return clearStep, true
	default:
		return commitStep, at > made
	}
}

// changes returns the writes of the n-th commit, and whether it is synced.
func changes(n uint64) (list []change, synced bool) {
	rng := rand.New(rand.NewPCG(doomedSeed, n))
	_, there := kind(n)
	size := 1
	if rng.IntN(4) == 0 {
		size = 1 + rng.IntN(60)
	}
	for range size {
		at := rng.IntN(doomedKeys)
		c := change{key: doomedKey(at), keyspace: there && rng.IntN(3) == 0}
		switch rng.IntN(15) {
		case 0:
			c.upper = doomedKey(at + 1 + rng.IntN(1+rng.IntN(400)))
		case 1, 2:
		default:
			c.value = filling(rng)
		}
		list = append(list, c)
	}
	list = append(list, change{key: []byte(doneKey), value: binary.LittleEndian.AppendUint64(nil, n)})
	return list, rng.IntN(8) == 0
}

func doomedKey(i int) []byte { return fmt.Appendf(nil, "key %05d", i) }

// filling returns a value of up to 120 KB; most are small.
func filling(rng *rand.Rand) []byte {
	length := rng.IntN(100)
	switch rng.IntN(20) {
	case 0:
		length = rng.IntN(120 << 10)
	case 1, 2, 3, 4, 5:
		length = rng.IntN(5 << 10)
	}
	if rng.IntN(3) == 0 {
		return bytes.Repeat(fmt.Appendf(nil, "%016x", rng.Uint64()), length/16+1)[:length]
	}
	value := make([]byte, length, length+8)
	for i := 0; i < length; i += 8 {
		binary.LittleEndian.PutUint64(value[i:cap(value)][:8], rng.Uint64())
	}
	return value
}

// doomWithKeys draws whether the store of a test and its processes is encrypted.
func doomWithKeys(t *testing.T) {
	if keysFor(t) != nil {
		t.Setenv(doomedWithKeys, "yes")
	}
}

// doomed commits until it is killed, and prints the number of each commit.
func doomed(dir string) error {
	var from uint64
	if _, err := fmt.Sscan(os.Getenv(doomedFrom), &from); err != nil {
		return err
	}
	db, err := brock.Open(doomedOptions(dir))
	if err != nil {
		return err
	}
	for n := from; ; n++ {
		if err := perform(db, n); err != nil {
			return fmt.Errorf("commit %d: %w", n, err)
		}
		if err := binary.Write(os.Stdout, binary.LittleEndian, n); err != nil {
			return err
		}
	}
}

// other is the other keyspace.
func other(db *brock.DB) *brock.Keyspace {
	for ks := range db.Keyspaces() {
		return ks
	}
	return nil
}

func perform(db *brock.DB, n uint64) error {
	switch s, _ := kind(n); s {
	case makeStep:
		_, err := db.Keyspace(otherKeyspace)
		return err
	case clearStep:
		return other(db).Clear(context.Background())
	case dropStep:
		return other(db).Drop(context.Background())
	}
	list, synced := changes(n)
	o := brock.TxnOptions{Update: true, Durability: brock.Buffered}
	if synced {
		o.Durability = brock.Synced
	}
	if n%5 == 0 {
		o.MaxMemory = 1 + int64(n%2)*20_000 // larger transactions go through files
	}
	return db.UpdateContext(context.Background(), o, func(txn *brock.Txn) error {
		for _, c := range list {
			to := txn
			if c.keyspace {
				to = txn.In(other(db))
			}
			var err error
			switch {
			case c.upper != nil:
				err = to.DeleteRange(c.key, c.upper)
			case c.value == nil:
				err = to.Delete(c.key)
			default:
				err = to.SetEntry(brock.NewEntry(c.key, c.value).WithTTL(time.Hour))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// kept is what a store must have: the pairs of the default keyspace and of the other
// one, which is nil if it does not exist.
type kept struct{ pairs, others map[string][]byte }

// apply does what the n-th step does to a store.
func (k *kept) apply(n uint64) {
	switch s, _ := kind(n); s {
	case makeStep, clearStep:
		k.others = map[string][]byte{}
		return
	case dropStep:
		k.others = nil
		return
	}
	list, _ := changes(n)
	for _, c := range list {
		m := k.pairs
		if c.keyspace {
			m = k.others
		}
		switch {
		case c.upper != nil:
			maps.DeleteFunc(m, func(key string, _ []byte) bool { return string(c.key) <= key && key < string(c.upper) })
		case c.value == nil:
			delete(m, string(c.key))
		default:
			m[string(c.key)] = c.value
		}
	}
}

// TestKilled kills a process that commits, at any moment. Every acknowledged commit
// must be there, buffered or not, and the one under way as a whole or not at all.
func TestKilled(t *testing.T) {
	doomWithKeys(t)
	kills := *killsFlag
	if kills == 0 {
		kills = 12
		if testing.Short() {
			kills = 4
		}
	}
	dir := t.TempDir()
	want, n := kept{pairs: map[string][]byte{}}, uint64(0)
	for kill := range kills {
		acked := runDoomed(t, dir, n, 30*time.Millisecond+rand.N(700*time.Millisecond), func(uint64) {})
		for ; n < acked; n++ {
			want.apply(n)
		}
		o := doomedOptions(dir)
		if kill%3 == 0 {
			o.Mode = brock.ReadOnly // a read-only Open shows the same, and leaves the recovery to the next Open
		}
		db, err := brock.Open(o)
		if n == 0 && o.Mode == brock.ReadOnly && errors.Is(err, brock.ErrNotExist) {
			continue // it was killed before there was a store
		}
		must(t, "open", err)
		diff := differs(t, db, want)
		if diff != "" { // the commit under way may be there
			want.apply(n)
			n++
			if again := differs(t, db, want); again != "" {
				t.Fatalf("kill %d, %d commits acknowledged: neither as after the last of them: %s\nnor as after one more: %s", kill, acked, diff, again)
			}
		}
		if kill%4 == 3 || kill == kills-1 {
			must(t, "verify", db.Verify(context.Background(), nil))
		}
		must(t, "close", db.Close())
	}
	t.Logf("%d kills, %d commits, %d keys in the end", kills, n, len(want.pairs)+len(want.others))
}

// runDoomed lets a process commit for a while, kills it, and returns the number
// of the first commit that was not acknowledged. It calls acked with how many there are.
func runDoomed(t *testing.T, dir string, from uint64, after time.Duration, acked func(uint64)) uint64 {
	t.Helper()
	self, err := os.Executable()
	must(t, "find the test's program", err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), doomedDir+"="+dir, fmt.Sprintf("%s=%d", doomedFrom, from))
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	must(t, "pipe", err)
	must(t, "start", cmd.Start())
	watch := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer watch.Stop()
	next, in := from, bufio.NewReader(out)
	for {
		var n uint64
		err := binary.Read(in, binary.LittleEndian, &n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		must(t, "read what was acknowledged", err)
		if n != next {
			t.Fatalf("commit %d was acknowledged after %d", n, next)
		}
		next++
		acked(next)
	}
	_ = cmd.Wait() // it was killed, or has printed why it ended
	if complaint.Len() > 0 {
		t.Fatalf("the writer ended by itself: %s", complaint.Bytes())
	}
	return next
}

// differs says how the store's content differs from want, by scans in both
// directions and by point reads; "" if it does not differ.
func differs(t *testing.T, db *brock.DB, want kept) (diff string) {
	t.Helper()
	ks := other(db)
	if (ks != nil) != (want.others != nil) {
		return fmt.Sprintf("the other keyspace is there: %v", ks != nil)
	}
	must(t, "read", db.View(func(txn *brock.Txn) (err error) {
		if diff, err = contentDiffers(txn, want.pairs); err == nil && diff == "" && ks != nil {
			diff, err = contentDiffers(txn.In(ks), want.others)
		}
		return err
	}))
	return diff
}

func contentDiffers(txn *brock.Txn, want map[string][]byte) (diff string, err error) {
	for _, reverse := range []bool{false, true} {
		seen := 0
		for item, err := range txn.Items(brock.IteratorOptions{Reverse: reverse}) {
			if err != nil {
				return "", err
			}
			value, err := item.Value()
			if err != nil {
				return "", err
			}
			expected, ok := want[string(item.Key())]
			if !ok || !bytes.Equal(value, expected) {
				diff = fmt.Sprintf("%q has %d bytes, want %d (there: %v)", item.Key(), len(value), len(expected), ok)
				return diff, nil
			}
			seen++
		}
		if seen != len(want) {
			diff = fmt.Sprintf("%d keys, want %d", seen, len(want))
			return diff, nil
		}
	}
	for i := range doomedKeys {
		key := doomedKey(i)
		expected, ok := want[string(key)]
		item, err := txn.Get(key)
		switch {
		case errors.Is(err, brock.ErrKeyNotFound):
			if ok {
				diff = fmt.Sprintf("get of %q finds nothing", key)
			}
			continue
		case err != nil:
			return "", err
		}
		if value, err := item.Value(); err != nil || !ok || !slices.Equal(value, expected) {
			diff = fmt.Sprintf("get of %q: %d bytes (%v), want %d", key, len(value), err, len(expected))
		}
	}
	return diff, nil
}
