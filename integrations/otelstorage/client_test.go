package otelstorage

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension/xextension/storage"
)

func TestBatchInOrder(t *testing.T) {
	t.Parallel()
	c := getClient(t, start(t, testConfig(t.TempDir())), "logs")
	before, between, after := storage.GetOperation("a"), storage.GetOperation("a"), storage.GetOperation("a")
	before.Value = []byte("left over from an earlier batch")
	value := []byte("1")
	if err := c.Batch(t.Context(), before, storage.SetOperation("a", value), between,
		storage.SetOperation("a", []byte("2")), storage.DeleteOperation("a"), after, storage.SetOperation("a", []byte("3"))); err != nil {
		t.Fatal(err)
	}
	value[0] = 'x'
	if before.Value != nil || string(between.Value) != "1" || after.Value != nil {
		t.Fatalf("%q, %q, %q", before.Value, between.Value, after.Value)
	}
	expect(t, c, "a", "3")
	// Without a Get.
	if err := c.Batch(t.Context(), storage.SetOperation("a", []byte("4")), storage.DeleteOperation("a"),
		storage.DeleteOperation("b"), storage.SetOperation("b", []byte("5")), storage.SetOperation("", nil)); err != nil {
		t.Fatal(err)
	}
	expectNone(t, c, "a")
	expect(t, c, "b", "5")
	expect(t, c, "", "")
	if err := c.Batch(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A batch with an operation that can't be executed changes nothing, wherever the operation is.
func TestWrongOperations(t *testing.T) {
	t.Parallel()
	c := getClient(t, start(t, testConfig(t.TempDir())), "logs")
	long := strings.Repeat("k", 2<<20)
	for _, wrong := range []*storage.Operation{nil, {Key: "k", Type: 3}, {Key: "k", Type: -1}, storage.SetOperation(long, nil)} {
		for _, ops := range [][]*storage.Operation{
			{storage.SetOperation("a", nil), wrong},
			{storage.SetOperation("a", nil), wrong, storage.GetOperation("a")},
			{wrong, storage.SetOperation("a", nil)},
		} {
			if err := c.Batch(t.Context(), ops...); err == nil {
				t.Fatalf("%v was executed", wrong)
			}
			err := c.(storage.Walker).Walk(t.Context(), func(string, []byte) ([]*storage.Operation, error) { return ops, nil })
			if err != nil {
				t.Fatalf("the storage is not empty, but %v", err)
			}
		}
	}
	expectNone(t, c, "a")
	set(t, c, "b", "value")
	err := c.(storage.Walker).Walk(t.Context(), func(string, []byte) ([]*storage.Operation, error) {
		return []*storage.Operation{storage.SetOperation("a", nil), nil}, nil
	})
	if !errors.Is(err, errOperation) {
		t.Fatalf("a Walk with a wrong operation: %v", err)
	}
	expectNone(t, c, "a")
}

func TestEndedContext(t *testing.T) {
	t.Parallel()
	c := getClient(t, start(t, testConfig(t.TempDir())), "logs")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Get(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	for _, ops := range [][]*storage.Operation{
		{storage.SetOperation("a", nil)}, {storage.GetOperation("a")}, {storage.GetOperation("a"), storage.SetOperation("a", nil)},
	} {
		if err := c.Batch(ctx, ops...); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	expectNone(t, c, "a")
	set(t, c, "a", "1")
	set(t, c, "b", "2")
	ctx, cancel = context.WithCancel(t.Context())
	calls := 0
	err := c.(storage.Walker).Walk(ctx, func(string, []byte) ([]*storage.Operation, error) {
		calls++
		cancel()
		return []*storage.Operation{storage.DeleteOperation("a")}, nil
	})
	if !errors.Is(err, context.Canceled) || calls != 1 {
		t.Fatalf("%d calls, %v", calls, err)
	}
	expect(t, c, "a", "1")
}

// The results of random batches are those of a map, and those of a map that was reopened.
func TestAgreesWithAMap(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	cfg := testConfig(t.TempDir(), func(c *Config) { c.MemoryLimitMiB = 4 })
	s := start(t, cfg)
	c := getClient(t, s, "logs")
	model := make(map[string]string)
	for step := range 3000 {
		var ops []*storage.Operation
		var want []*string
		next := maps.Clone(model)
		for range random.IntN(5) + 1 {
			key := strconv.Itoa(random.IntN(50))
			switch random.IntN(3) {
			case 0:
				ops = append(ops, storage.GetOperation(key))
				if v, ok := next[key]; ok {
					want = append(want, &v)
				} else {
					want = append(want, nil)
				}
			case 1:
				next[key] = strings.Repeat(strconv.Itoa(step)+" ", random.IntN(1000))
				ops = append(ops, storage.SetOperation(key, []byte(next[key])))
			case 2:
				delete(next, key)
				ops = append(ops, storage.DeleteOperation(key))
			}
		}
		if err := c.Batch(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
		for _, op := range ops {
			if op.Type != storage.Get {
				continue
			}
			if w := want[0]; (w == nil) != (op.Value == nil) || w != nil && *w != string(op.Value) {
				t.Fatalf("step %d: %s is %q", step, op.Key, op.Value)
			}
			want = want[1:]
		}
		model = next
		if step%500 == 499 {
			shutdown(t, s)
			s = start(t, cfg)
			c = getClient(t, s, "logs")
			got := make(map[string]string)
			if err := c.(storage.Walker).Walk(t.Context(), func(key string, value []byte) ([]*storage.Operation, error) {
				got[key] = string(value)
				return nil, nil
			}); err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(got, model) {
				t.Fatalf("step %d: the storage has %q, and not %q", step, got, model)
			}
		}
	}
}

// Batches that read and write the same keys are executed one after the other, and never return a
// conflict. Each takes the next number: it reads the last one and writes its own.
func TestBatchesAreSerial(t *testing.T) {
	t.Parallel()
	s := start(t, testConfig(t.TempDir()))
	const writers, each = 8, 200
	var mu sync.Mutex
	last := make(map[string]string) // what each batch wrote, by what it has read
	var wg sync.WaitGroup
	for w := range writers {
		c := getClient(t, s, "logs")
		wg.Go(func() {
			for i := range each {
				mine := fmt.Sprintf("%d/%d", w, i)
				get := storage.GetOperation("key")
				if err := c.Batch(context.Background(), get, storage.SetOperation("key", []byte(mine))); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if by, twice := last[string(get.Value)]; twice {
					t.Errorf("%s and %s have both replaced %q", by, mine, get.Value)
				}
				last[string(get.Value)] = mine
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	// The chain from nothing has all of them.
	at, n := "", 0
	for last[at] != "" {
		at, n = last[at], n+1
	}
	if n != writers*each {
		t.Fatalf("%d batches in a row, and not %d", n, writers*each)
	}
	expect(t, getClient(t, s, "logs"), "key", at)
}

// A Walk beside writers sees one state, and its operations are applied to that state: of many that
// count, none loses the count of another, and what one batch has written is seen whole.
func TestWalkBesideWriters(t *testing.T) {
	t.Parallel()
	s := start(t, testConfig(t.TempDir()))
	set(t, getClient(t, s, "logs"), "counter", "0")
	const walkers, each, writers = 4, 100, 2
	ctx, cancel := context.WithCancel(context.Background())
	var walking, writing sync.WaitGroup
	for w := range writers {
		c := getClient(t, s, "logs")
		writing.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				value := fmt.Appendf(nil, "%d/%d", w, i)
				if err := c.Batch(context.Background(), storage.SetOperation("a", value), storage.SetOperation("z", value)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range walkers {
		c := getClient(t, s, "logs").(*client)
		walking.Go(func() {
			for range each {
				var a, z string
				err := c.Walk(context.Background(), func(key string, value []byte) ([]*storage.Operation, error) {
					switch key {
					case "a":
						a = string(value)
					case "z":
						z = string(value)
					case "counter":
						n, err := strconv.Atoi(string(value))
						return []*storage.Operation{storage.SetOperation("counter", strconv.AppendInt(nil, int64(n+1), 10))}, err
					}
					return nil, nil
				})
				if err != nil || a != z {
					t.Errorf("a Walk sees %q and %q, %v", a, z, err)
					return
				}
			}
		})
	}
	walking.Wait()
	cancel()
	writing.Wait()
	expect(t, getClient(t, s, "logs"), "counter", strconv.Itoa(walkers*each))
}

func TestWalkReadsByTheClient(t *testing.T) {
	t.Parallel()
	c := getClient(t, start(t, testConfig(t.TempDir())), "logs")
	set(t, c, "a", "1")
	set(t, c, "b", "2")
	get := storage.GetOperation("c")
	err := c.(storage.Walker).Walk(t.Context(), func(key string, value []byte) ([]*storage.Operation, error) {
		expect(t, c, key, string(value))
		value[0] = 'x' // must not end the process, nor change the storage
		return []*storage.Operation{storage.SetOperation("c", []byte(key)), get}, nil
	})
	if err != nil || string(get.Value) != "b" {
		t.Fatalf("%q, %v", get.Value, err)
	}
	expect(t, c, "a", "1")
	expect(t, c, "c", "b")
}

// childDir makes this test program one that writes until it is killed; see TestKill.
const childDir = "BROCK_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		writeUntilKilled(dir)
		return
	}
	os.Exit(m.Run())
}

// writeUntilKilled works as a persistent queue does, and prints the number of each item that it has
// put, and of each that it has deleted.
func writeUntilKilled(dir string) {
	ctx := context.Background()
	fail := func(err error) {
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
	}
	s := newExtension(nopSettings(), testConfig(dir, func(c *Config) { c.MemoryLimitMiB = 4 }))
	fail(s.Start(ctx, componenttest.NewNopHost()))
	c, err := s.GetClient(ctx, exporterKind, exporterID, "logs")
	fail(err)
	meta, err := c.Get(ctx, "meta")
	fail(err)
	first, next := 0, 0
	if meta != nil {
		_, err = fmt.Sscan(string(meta), &first, &next)
		fail(err)
	}
	metadata := func() *storage.Operation {
		return storage.SetOperation("meta", fmt.Append(nil, first, next))
	}
	for {
		for range 3 {
			next++
			fail(c.Batch(ctx, metadata(), storage.SetOperation(strconv.Itoa(next-1), itemOf(next-1))))
			fmt.Println("put", next-1)
		}
		get := storage.GetOperation(strconv.Itoa(first))
		first++
		fail(c.Batch(ctx, metadata(), get))
		if !bytes.Equal(get.Value, itemOf(first-1)) {
			fail(fmt.Errorf("item %d is %d bytes", first-1, len(get.Value)))
		}
		fail(c.Batch(ctx, metadata(), storage.DeleteOperation(strconv.Itoa(first-1))))
		fmt.Println("deleted", first-1)
	}
}

// itemOf returns the item of a number.
func itemOf(n int) []byte { return bytes.Repeat([]byte(strconv.Itoa(n)+" "), n%3000) }

// Nothing that a batch has returned nil for is lost when the process is killed, in the middle of
// whatever the store does in the background.
func TestKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put, deleted := -1, -1 // the last ones that the process told of
	for round := range 5 {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		child := exec.Command(self)
		child.Env = append(os.Environ(), childDir+"="+dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			word, number, _ := strings.Cut(lines.Text(), " ")
			i, err := strconv.Atoi(number)
			if err != nil {
				t.Fatal(lines.Text())
			}
			if word == "put" {
				put = i
			} else {
				deleted = i
			}
			if n == 2000+500*round {
				if err := child.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = child.Wait() // it was killed
		s := start(t, testConfig(dir))
		c := getClient(t, s, "logs")
		var first, next int
		meta, err := c.Get(t.Context(), "meta")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(string(meta), &first, &next); err != nil {
			t.Fatal(err)
		}
		if next <= put || first <= deleted {
			t.Fatalf("the metadata is %s after %d was put and %d deleted", meta, put, deleted)
		}
		for i := first; i < next; i++ {
			expect(t, c, strconv.Itoa(i), string(itemOf(i)))
		}
		for i := range first - 1 { // the last one may have been taken, and not yet deleted
			expectNone(t, c, strconv.Itoa(i))
		}
		// An item that was taken and not deleted stays for ever in this simple queue: delete it.
		if err := c.Delete(t.Context(), strconv.Itoa(first-1)); err != nil {
			t.Fatal(err)
		}
		shutdown(t, s)
	}
}
