package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/extension/xextension/storage"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"

	"github.com/brockdb/brock/integrations/otelstorage"
)

// openStorage opens the storage of a run, with the defaults of a collector's configuration.
func openStorage(ctx context.Context, s settings) (extension.Extension, storage.Client, error) {
	var f extension.Factory
	var cfg component.Config
	switch s.Store {
	case "brock":
		f = otelstorage.NewFactory()
		c := f.CreateDefaultConfig().(*otelstorage.Config)
		c.Directory, c.MemoryLimitMiB = s.Dir, s.Limit
		if s.Synced {
			c.Durability = "synced"
		}
		cfg = c
	case "file_storage", "file_storage_rebound":
		f = filestorage.NewFactory()
		c := f.CreateDefaultConfig().(*filestorage.Config)
		c.Directory, c.FSync = s.Dir, s.Synced
		c.Compaction.Directory, c.Compaction.OnRebound = s.Dir, s.Store != "file_storage"
		cfg = c
	default:
		return nil, nil, fmt.Errorf("there is no storage %q", s.Store)
	}
	ext, err := f.Create(ctx, extensiontest.NewNopSettings(f.Type()), cfg)
	if err != nil {
		return nil, nil, err
	}
	if err := ext.Start(ctx, componenttest.NewNopHost()); err != nil {
		return nil, nil, err
	}
	client, err := ext.(storage.Extension).GetClient(ctx, component.KindExporter, component.MustNewID("otlp"), "logs")
	return ext, client, err
}

// runChild does one run, or a part of one, and prints its result.
func runChild(text string) error {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	if err := joinGroup(); err != nil {
		return err
	}
	r, err := run(s)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil || !s.Killed {
		return err
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	return errors.Join(self.Kill(), errors.New("it was not killed"))
}

// run does one run. If it is to be killed, it ends in the middle of the drain, and if it goes on after
// that, it begins there.
func run(s settings) (r result, err error) {
	ctx := context.Background()
	begin := time.Now()
	ext, client, err := openStorage(ctx, s)
	if err != nil {
		return r, err
	}
	memory := watchMemory()
	q := newQueue(client, s.Size)
	each := max(s.Items/tenths, 1)
	take := func() error { return q.take(ctx) }
	if s.After == nil {
		if err := timeParts(r.Fill[:], each, func() error { return q.put(ctx) }); err != nil {
			return r, err
		}
		r.Full = diskUse(s.Dir)
		var both [tenths]part
		if err := timeParts(both[:], max(each/tenths, 1), func() error { return errors.Join(q.put(ctx), q.take(ctx)) }); err != nil {
			return r, err
		}
		r.Both = mean(both)
		err = timeParts(r.Drain[:tenths/2], each, take)
	} else {
		r = *s.After
		if err = q.goOn(ctx, r.Read, r.Write); err == nil {
			_, err = client.Get(ctx, key(q.read))
		}
		r.Reopen = time.Since(begin).Seconds()
	}
	r.Read, r.Write = q.read, q.write
	if s.Killed || err != nil {
		return r.withMemory(memory), err
	}
	if err := timeParts(r.Drain[tenths/2:], each, take); err != nil {
		return r, err
	}
	r.Drained = diskUse(s.Dir)
	time.Sleep(time.Duration(s.Rested) * time.Second)
	r.AtRest = diskUse(s.Dir)
	return r.withMemory(memory), errors.Join(client.Close(ctx), ext.Shutdown(ctx))
}

// withMemory adds what a process took, as watchMemory has found.
func (r result) withMemory(watched func() (anon, rss int64)) result {
	anon, rss := watched()
	r.Anon, r.RSS = max(r.Anon, anon), max(r.RSS, rss)
	return r
}

// timeParts does something so often for each part, and notes how fast that was, and what it cost.
func timeParts(parts []part, items int, do func() error) error {
	for i := range parts {
		begin, cpu, written := time.Now(), cpuTime(), writtenBytes()
		for range items {
			if err := do(); err != nil {
				return err
			}
		}
		count := float64(items)
		parts[i] = part{
			Rate:    count / time.Since(begin).Seconds(),
			CPU:     float64((cpuTime() - cpu).Microseconds()) / count,
			Written: float64(writtenBytes()-written) / count,
		}
	}
	return nil
}

// cpuTime returns the processor time of the process, in steps of 10 ms.
func cpuTime() time.Duration {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0 // not Linux
	}
	// The name of the program, in brackets, may have spaces.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	const user, system, tick = 11, 12, 10 * time.Millisecond
	if len(fields) <= system {
		return 0
	}
	u, err1 := strconv.ParseInt(fields[user], 10, 64)
	s, err2 := strconv.ParseInt(fields[system], 10, 64)
	if err1 != nil || err2 != nil {
		return 0
	}
	return time.Duration(u+s) * tick
}

// writtenBytes returns how many bytes the process has given to the system to write.
func writtenBytes() int64 {
	counts, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0 // not Linux
	}
	return number(string(counts), "wchar:")
}

// queue does with its client what the persistent queue of exporterhelper does.
type queue struct {
	client      storage.Client
	size        int
	pool        []byte // random bytes, of which items are parts
	random      *rand.Rand
	read, write uint64
	meta        []byte
}

func newQueue(client storage.Client, size int) *queue {
	q := &queue{client: client, size: size, random: rand.New(rand.NewPCG(1, 2)), pool: make([]byte, 1<<20+size)}
	for i := 0; i+8 <= len(q.pool); i += 8 {
		binary.LittleEndian.PutUint64(q.pool[i:], q.random.Uint64())
	}
	return q
}

// metadata is about as long as that of exporterhelper: indexes, sizes, and the item in flight.
func (q *queue) metadata() *storage.Operation {
	q.meta = q.meta[:0]
	for _, n := range []uint64{q.read, q.write, q.write - q.read, (q.write - q.read) * uint64(q.size), q.read} {
		q.meta = binary.AppendUvarint(append(q.meta, 8), n)
	}
	return storage.SetOperation("qmv0", q.meta)
}

// goOn begins where a process was killed, which had read and written so many items: that is what the
// metadata must say.
func (q *queue) goOn(ctx context.Context, read, write uint64) error {
	q.read, q.write = read, write
	meta, err := q.client.Get(ctx, "qmv0")
	if err != nil {
		return err
	}
	if !bytes.Equal(meta, q.metadata().Value) {
		return fmt.Errorf("the metadata is %x after %d items were taken and %d put", meta, read, write)
	}
	return nil
}

// put puts an item that begins with its number.
func (q *queue) put(ctx context.Context) error {
	at := q.random.IntN(1 << 20)
	item := q.pool[at : at+q.size]
	binary.LittleEndian.PutUint64(item, q.write)
	q.write++
	return q.client.Batch(ctx, q.metadata(), storage.SetOperation(key(q.write-1), item))
}

// take takes the next item and deletes it.
func (q *queue) take(ctx context.Context) error {
	get := storage.GetOperation(key(q.read))
	q.read++
	if err := q.client.Batch(ctx, q.metadata(), get); err != nil {
		return err
	}
	if len(get.Value) != q.size || binary.LittleEndian.Uint64(get.Value) != q.read-1 {
		return fmt.Errorf("item %d has %d bytes", q.read-1, len(get.Value))
	}
	return q.client.Batch(ctx, q.metadata(), storage.DeleteOperation(key(q.read-1)))
}

func key(n uint64) string { return strconv.FormatUint(n, 10) }

// diskUse returns the bytes of the files in a directory.
func diskUse(dir string) (total int64) {
	// A file may be gone since its directory was read.
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			if info, err := entry.Info(); err == nil {
				total += info.Size()
			}
		}
		return nil
	})
	return total
}

// watchMemory looks at the memory of the process until the function that it returns is called.
// That returns the greatest anonymous memory, and the greatest with mapped files.
func watchMemory() func() (anon, rss int64) {
	var anon, rss atomic.Int64
	done, ended := make(chan struct{}), make(chan struct{})
	look := func() {
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			return // not Linux
		}
		anon.Store(max(anon.Load(), field(string(status), "RssAnon:")))
		rss.Store(max(rss.Load(), field(string(status), "VmRSS:")))
	}
	go func() {
		defer close(ended)
		for {
			look()
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return func() (int64, int64) {
		close(done)
		<-ended
		return anon.Load(), rss.Load()
	}
}

// field returns a field of /proc/self/status in bytes.
func field(status, name string) (bytes int64) { return number(status, name) << 10 }

// number returns the number behind a name.
func number(text, name string) (n int64) {
	_, line, _ := strings.Cut(text, name)
	if _, err := fmt.Sscan(line, &n); err != nil {
		return 0
	}
	return n
}
